-- Group default has projections invites, scores and sessions. In oak, scores is dead at its second event, and sessions failed there, due; in elm, scores is dead at
-- its first event, and sessions is catching up; in "ash <tab>", invites failed, not due, with a stack. Of oak, event 3 is left out of scores. Group search has nothing.
-- It may be run again, which puts everything back.
TRUNCATE tidemark.consumer_groups, tidemark.projections, tidemark.workers, tidemark.leases, tidemark.outbox, tidemark.failed, tidemark.failure_log, tidemark.resolutions, tidemark.pauses,
    tidemark.rebuilds RESTART IDENTITY;

INSERT INTO tidemark.consumer_groups (name, state) VALUES ('default', 'ready'), ('search', 'filing');

INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
VALUES ('invites', 'default', 1, 'public', '{invites}', 'active'), ('scores', 'default', 3, 'public', '{scores,score_totals}', 'active'),
    ('sessions', 'default', 1, 'public', '{sessions}', 'joining');

INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, actor, payload, payload_bytes, occurred_at, recorded_at)
SELECT campaign, seq, n, ('00000000-0000-7000-8000-0000000000' || lpad(n::text, 2, '0'))::uuid, type, 1, 'projection_and_replay', 'ada', payload::jsonb, 0, now(),
    now() - make_interval(hours => hours, mins => 30)
FROM (VALUES
    (1, 'oak', 1, 'campaign_created', '{"name": "Oak"}', 50), (2, 'oak', 2, 'scored', '{"points": "many", "by": {"name": "Ida"}}', 49), (3, 'oak', 3, 'scored', '{"points": 3}', 48),
    (4, 'elm', 1, 'campaign_created', '{"name": null}', 30), (5, 'elm', 2, 'scored', '{"points": 1}', 29),
    (6, E'ash\t', 1, 'invited', '{}', 5)
) AS e (n, campaign, seq, type, payload, hours)
ON CONFLICT DO NOTHING;

INSERT INTO tidemark.workers (owner, consumer_group, host, pid, started_at, seen_at, campaigns_held, events_applied)
VALUES ('w1', 'default', 'box', 7, now(), now(), 1, 12);

INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
VALUES ('default', 'oak', 'w1', 4, now() + interval '1 hour', 3), ('default', 'elm', 'w1', 2, '-infinity', 2), ('default', E'ash\t', 'w1', 1, '-infinity', 1);

INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
SELECT 'default', campaign_id, seq, recorded_at, 1 FROM tidemark.journal WHERE campaign_id = 'oak' AND seq = 3;

INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, attempt_count, next_attempt_at, projection_version, event_id, event_type,
    error_class, error_code, error_message, error_stack, fingerprint, worker, first_failed_at, last_failed_at)
VALUES
    ('oak', 'scores', 'default', 2, 'dead', 1, now() + interval '2 hours', 3, '00000000-0000-7000-8000-000000000002', 'scored', 'permanent', '22P02',
        'invalid input syntax for type integer: "many"', NULL, '3f2a8c1d90be', 'w1', now() - interval '26 hours 30 minutes', now() - interval '26 hours 30 minutes'),
    ('oak', 'sessions', 'default', 2, 'failed', 3, now() - interval '1 minute', 1, '00000000-0000-7000-8000-000000000002', 'scored', 'transient', 'error',
        E'two\nlines, and \x1b[31mred', NULL, 'aa2a8c1d90be', 'w1', now() - interval '20 hours 30 minutes', now() - interval '5 minutes'),
    ('elm', 'scores', 'default', 1, 'dead', 8, 'infinity', 3, '00000000-0000-7000-8000-000000000004', 'campaign_created', 'transient', '23502',
        'null value in column "name" of relation "scores" violates not-null constraint', NULL, '772a8c1d90be', 'w1', now() - interval '25 hours', now() - interval '24 hours 30 minutes'),
    ('elm', 'sessions', 'default', 1, 'catching_up', 0, now(), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (E'ash\t', 'invites', 'default', 1, 'failed', 1, now() + interval '1 hour', 1, '00000000-0000-7000-8000-000000000006', 'invited', 'permanent', 'panic',
        'runtime error: index out of range', E'goroutine 1 [running]:\nmain.apply(...)\n\t/src/apply.go:7\n', 'bb2a8c1d90be', 'w1', now() - interval '4 hours 30 minutes',
        now() - interval '4 hours 30 minutes');

INSERT INTO tidemark.resolutions (campaign_id, projection, seq, actor, reason, resolved_at) VALUES ('oak', 'scores', 3, 'ada@box', 'scored twice', now() - interval '2 hours 30 minutes');

INSERT INTO tidemark.failure_log (at, act, consumer_group, projection, projection_version, campaign_id, seq, event_id, event_type, attempt, error_class, error_code, error_message,
    fingerprint, worker, actor, reason)
VALUES
    (now() - interval '26 hours 30 minutes', 'dead', 'default', 'scores', 3, 'oak', 2, '00000000-0000-7000-8000-000000000002', 'scored', 1, 'permanent', '22P02',
        'invalid input syntax for type integer: "many"', '3f2a8c1d90be', 'w1', NULL, NULL),
    (now() - interval '90 minutes', 'requeued', 'default', 'scores', 3, 'oak', 2, '00000000-0000-7000-8000-000000000002', 'scored', 1, 'permanent', '22P02', NULL, '3f2a8c1d90be', NULL,
        'ada@box', 'does 1.4.2 help?'),
    (now() - interval '5 minutes', 'failed', 'default', 'sessions', 1, 'oak', 2, '00000000-0000-7000-8000-000000000002', 'scored', 3, 'transient', 'error',
        E'two\nlines, and \x1b[31mred', 'aa2a8c1d90be', 'w1', NULL, NULL);
SELECT setval('tidemark.journal_position', greatest(last_value, (SELECT max(position) FROM tidemark.journal)))
FROM tidemark.journal_position;

-- Group default: campaign oak has three events, one applied, and a live lease. Campaign "ash <tab>" has two, none applied. Campaign elm is applied, but
-- projection sessions failed at its second event, and projection invites is dead at its first. Group search is new and has nothing to do.
INSERT INTO tidemark.consumer_groups (name) VALUES ('default'), ('search');

INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
VALUES ('sessions', 'default', 1, 'public', '{sessions}', 'active'), ('invites', 'default', 1, 'public', '{invites}', 'active');

INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload, payload_bytes, occurred_at, recorded_at)
SELECT campaign, seq, row_number() OVER (), gen_random_uuid(), type, 1, 'projection_and_replay', '{}', 0, now(), now() - make_interval(hours => hours, mins => 30)
FROM (VALUES
    ('oak', 1, 'campaign_created', 9), ('oak', 2, 'session_started', 8), ('oak', 3, 'session_ended', 7),
    (E'ash\t', 1, 'campaign_created', 5), (E'ash\t', 2, 'invite_created', 4),
    ('elm', 1, 'invite_created', 50), ('elm', 2, 'session_started', 26)
) AS e (campaign, seq, type, hours);

INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
SELECT 'default', campaign_id, seq, recorded_at, 1 FROM tidemark.journal
WHERE campaign_id = E'ash\t' OR campaign_id = 'oak' AND seq > 1;

INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
VALUES ('default', 'oak', 'worker', 1, now() + interval '1 hour', 1), ('default', 'elm', 'worker', 1, '-infinity', 2);

INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, attempt_count, next_attempt_at, error_message)
VALUES ('elm', 'sessions', 'default', 2, 'failed', 3, now() - interval '1 minute', 'null value in column "session_id" of relation "sessions" violates not-null constraint'),
    ('elm', 'invites', 'default', 1, 'dead', 8, now(), E'two\nlines, and \x1b[31mred');
SELECT setval('tidemark.journal_position', greatest(last_value, (SELECT max(position) FROM tidemark.journal)))
FROM tidemark.journal_position;

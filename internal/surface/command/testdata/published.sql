-- Topic orders goes to archive, which has sent all but the last event and is held by a relay, and to
-- shop, which has failed. Topic everything goes to archive too, is paused there, and has three ghosts;
-- and to billing, whose sink has failed for an hour. Of campaign oak event 2 is parked at archive and
-- holds the rest; of elm event 1 is left out; of "ash <tab>" event 1 is tried again.
DELETE FROM tidemark.readers; DELETE FROM tidemark.parked; DELETE FROM tidemark.ghosts; UPDATE tidemark.operator_log_head SET pruned = link, pruned_hash = hash; DELETE FROM tidemark.operator_log; DELETE FROM tidemark.relays;
ALTER TABLE tidemark.operator_log ALTER id RESTART;
SELECT setval('tidemark.journal_position', 6);

INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload, payload_bytes, occurred_at, recorded_at)
SELECT campaign, seq, n, ('00000000-0000-7000-8000-00000000000' || n)::uuid, 'order_placed', 1, 'projection_and_replay', '{"total": 12}', 13, now(), now() - make_interval(hours => hours, mins => 30)
FROM (VALUES (1, 'oak', 1, 9), (2, 'oak', 2, 8), (3, 'oak', 3, 7), (4, 'elm', 1, 5), (5, E'ash\t', 1, 4), (6, 'elm', 2, 3)) AS e (n, campaign, seq, hours) ON CONFLICT DO NOTHING;

INSERT INTO tidemark.relays (owner, host, pid, knows, seen_at, expires_at, pairs_held) VALUES ('w1', 'box', 42, '{}', now(), now() + interval '1 hour', 1);

INSERT INTO tidemark.readers (topic, publisher, position, status, reason, actor, paused_until, error_count, last_error, last_error_at, failing_since, published_count, last_published_at, owner, generation, expires_at)
VALUES ('orders', 'archive', 5, 'ACTIVE', NULL, NULL, 'infinity', 0, NULL, NULL, NULL, 3, now() - interval '3 hours', 'w1', 4, now() + interval '1 hour'),
    ('everything', 'archive', 2, 'PAUSED', 'the broker moves', 'ada@box', 'infinity', 0, NULL, NULL, NULL, 2, now() - interval '8 hours', '', 2, '-infinity'),
    ('orders', 'shop', 0, 'FAILED', 'position 9 is ahead of the journal', NULL, 'infinity', 3, 'position 9 is ahead of the journal', now(), now() - interval '1 hour', 0, NULL, '', 1, '-infinity'),
    ('everything', 'billing', 6, 'ACTIVE', NULL, NULL, 'infinity', 153, 'connection refused', now(), now() - interval '1 hour', 0, NULL, '', 1, '-infinity');

INSERT INTO tidemark.ghosts (topic, publisher, campaign_id, event_id, seq, position, seen_at)
VALUES ('everything', 'archive', 'oak', '00000000-0000-7000-8000-0000000000aa', 2, 2, now() - interval '1 hour'),
    ('everything', 'archive', E'ash\t', '00000000-0000-7000-8000-000000000005', 1, 3, now() - interval '1 hour'),
    ('everything', 'archive', 'fir', '00000000-0000-7000-8000-0000000000bb', 1, 4, now() - interval '1 hour');

INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, event_id, event_type, status, attempt_count, next_attempt_at, error_message, first_failed_at, last_failed_at)
VALUES ('orders', 'archive', 'oak', 2, true, 2, '00000000-0000-7000-8000-000000000002', 'order_placed', 'parked', 25, now(), 'the message is too large', now() - interval '8 hours', now()),
    ('orders', 'archive', 'elm', 1, false, 4, '00000000-0000-7000-8000-000000000004', 'order_placed', 'parked', 1, now(), E'two\nlines, and \x1b[31mred', now() - interval '5 hours', now()),
    ('orders', 'archive', E'ash\t', 1, true, 5, '00000000-0000-7000-8000-000000000005', 'order_placed', 'retrying', 3, now(), 'it says 422', now() - interval '4 hours', now()),
    ('everything', 'archive', 'oak', 2, true, 1, NULL, NULL, 'draining', 0, now(), NULL, NULL, NULL);

INSERT INTO tidemark.operator_log (at, actor, act, reason, topic, publisher, campaign_id, seq, detail, way, token_id, address,
    database_user)
VALUES (now() - interval '1 hour', 'ada@box', 'publisher_paused', 'the broker moves', 'everything', 'archive', NULL, NULL,
        '{"for": "0s"}', 'cli', NULL, NULL, 'app_operator'),
    (now() - interval '1 hour', 'bob@box', 'parked_retried', NULL, 'orders', 'archive', 'oak', 2, NULL, 'page', 7,
        '10.0.0.1', 'app_worker');

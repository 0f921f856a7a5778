-- Operation 1 requeues three pairs and has done one of them; 2 has verified scores and found a difference; 3 has failed.
INSERT INTO tidemark.operations (kind, request, actor, reason, state, total, done, skipped, failed, progress, error, created_at, updated_at, ended_at)
VALUES
    ('requeue', '{"kind": "requeue", "pairs": {"projection": "scores"}}', 'ada', 'fixed in 1.4.2', 'running', 3, 1, 1, 0, NULL, NULL, now() - interval '90 minutes', now() - interval '5 minutes', NULL),
    ('verify', '{"projection": "scores"}', 'bob', NULL, 'done', 2, 2, 0, 1, '{"Campaigns": 2, "Differing": 1}', NULL, now() - interval '150 minutes', now() - interval '140 minutes',
        now() - interval '140 minutes'),
    ('republish', '{"from": 1, "topic": "orders", "publisher": "archive", "campaign_id": "oak"}', 'bob', 'lost', 'failed', 0, 0, 0, 0, NULL, 'the sink is gone', now() - interval '210 minutes',
        now() - interval '200 minutes', now() - interval '200 minutes');

INSERT INTO tidemark.operation_items (operation_id, ord, campaign_id, subject, seq, outcome, detail)
VALUES (1, 1, 'oak', 'scores', 2, 'done', NULL), (1, 2, 'elm', 'scores', 1, 'skipped', 'it has moved on'), (1, 3, 'ash', 'scores', 1, NULL, NULL),
    (2, 1, 'oak', 'scores', 0, 'failed', 'its rows differ from what the journal says');

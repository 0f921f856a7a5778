-- On top of failed.sql: projection scores is being rebuilt. Its one campaign is dead.
INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state) VALUES ('scores~next', 'default', 4, 'tidemark_next_scores', '{scores,score_totals}', 'active');
INSERT INTO tidemark.rebuilds (projection, max_share, allow_failed, keep, verify_sample, verify_ignore, actor, reason, campaigns, events, active_at, refusal)
VALUES ('scores', 0.5, 0, '24h', 1000, '{}', 'ada@box', 'version 4', 1, 2, now(), 'at least 1 of its campaigns are failed or dead, allowed are 0');
INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, next_attempt_at) VALUES ('oak', 'scores~next', 'default', 2, 'dead', 'infinity');

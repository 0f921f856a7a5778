-- On top of failed.sql: group search, projection scores and campaign elm are paused, the last one for some time. Of campaign oak and of "ash <tab>" group search has
-- applied nothing and has no work item: two gaps.
INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor, paused_at, expires_at)
VALUES ('group', 'search', '', 'the index moves', 'ada@box', now(), 'infinity'), ('projection', 'default', 'scores', 'deploy of 1.4.2', 'ada@box', now(), 'infinity'),
    ('campaign', 'default', 'elm', '', 'bob@box', now(), now() + interval '1 hour');

UPDATE tidemark.leases SET owner = 'paused', generation = 3, expires_at = now() + interval '1 hour' WHERE campaign_id = 'elm';
UPDATE tidemark.consumer_groups SET state = 'ready';
INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint) VALUES ('search', 'elm', 'w2', 1, now() - interval '1 hour', 2);

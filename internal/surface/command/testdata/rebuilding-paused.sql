-- On top of rebuilding.sql: the rebuild is paused.
INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor, paused_at, expires_at) VALUES ('projection', 'default', 'scores~next', '', 'ada@box', now(), 'infinity');

-- An erasure whose certificate is certificate.json: its key is 32 zeros. A row of the log still has the value.
INSERT INTO tidemark.erasures (campaign_id, actor, reason, ended_at) VALUES ('gone', 'anna', 'a request', now());
INSERT INTO tidemark.erased_values
VALUES (1, sha256(decode(repeat('00', 32), 'hex') || convert_to('planted', 'UTF8')));
INSERT INTO tidemark.failure_log (act, consumer_group, actor, reason) VALUES ('paused', 'default', 'anna', 'as planted asked');

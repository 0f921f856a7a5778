-- An erasure whose certificate is certificate.json: its key is 32 zeros. A row of the log still has the value.
INSERT INTO tidemark.erasures (request, campaign_id, actor, reason, began_at, ended_at)
VALUES (sha256(''), 'gone', 'anna', 'a request', '2026-01-02 03:04:05Z', now());
INSERT INTO tidemark.erased_values
SELECT 1, h.* FROM tidemark.erased_hashes(decode(repeat('00', 32), 'hex'), '{planted}') h;
INSERT INTO tidemark.failure_log (act, consumer_group, actor, reason) VALUES ('paused', 'default', 'anna', 'as planted asked');

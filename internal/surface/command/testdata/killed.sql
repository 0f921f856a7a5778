-- An erasure that was killed.
INSERT INTO tidemark.erasures (request, campaign_id, actor, reason) VALUES (sha256(''), 'gone', 'anna', 'a request');

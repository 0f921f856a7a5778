-- projection: sessions
-- version: 1

CREATE TABLE sessions (
    campaign_id text COLLATE "C" NOT NULL,
    session_id  text COLLATE "C" NOT NULL,
    host        text,
    tags        text[]           NOT NULL,
    started_at  timestamptz      NOT NULL,
    ended_at    timestamptz,
    outcome     text,
    PRIMARY KEY (campaign_id, session_id)
);

-- One campaign has at most one session that has not ended.
CREATE UNIQUE INDEX sessions_active ON sessions (campaign_id) WHERE ended_at IS NULL;

CREATE TABLE session_counts (
    campaign_id text COLLATE "C" PRIMARY KEY,
    started     bigint NOT NULL,
    ended       bigint NOT NULL DEFAULT 0
);

-- on: session_started
INSERT INTO sessions (campaign_id, session_id, host, tags, started_at)
VALUES (event.campaign_id, event.payload->>'session_id', event.actor, event.tags, event.occurred_at);

INSERT INTO session_counts AS c (campaign_id, started) VALUES (event.campaign_id, 1)
ON CONFLICT (campaign_id) DO UPDATE SET started = c.started + 1;

-- on: session_ended, session_aborted
UPDATE sessions SET ended_at = event.occurred_at, outcome = replace(event.event_type, 'session_', '')
WHERE campaign_id = event.campaign_id AND session_id = event.payload->>'session_id';

UPDATE session_counts SET ended = ended + 1 WHERE campaign_id = event.campaign_id;

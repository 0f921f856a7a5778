-- projection: sessions
-- version: 1

CREATE TABLE sessions (
    campaign_id text COLLATE "C" NOT NULL,
    session_id  text COLLATE "C" NOT NULL,
    number      integer          NOT NULL,
    title       text             NOT NULL,
    scenes      integer          NOT NULL DEFAULT 0,
    recap       text,
    started_at  timestamptz      NOT NULL,
    ended_at    timestamptz,
    PRIMARY KEY (campaign_id, session_id)
);

-- At most one row for each campaign: the session and scene now in play.
CREATE TABLE active_sessions (
    campaign_id text COLLATE "C" PRIMARY KEY,
    session_id  text COLLATE "C" NOT NULL,
    scene_id    text COLLATE "C",
    scene_title text,
    started_at  timestamptz      NOT NULL
);

-- on: session_started
INSERT INTO sessions (campaign_id, session_id, number, title, started_at)
VALUES (event.campaign_id, event.payload->>'session_id', (event.payload->>'number')::integer, event.payload->>'title',
    event.occurred_at);

INSERT INTO active_sessions (campaign_id, session_id, started_at)
VALUES (event.campaign_id, event.payload->>'session_id', event.occurred_at);

-- on: scene_started
UPDATE sessions SET scenes = scenes + 1
WHERE campaign_id = event.campaign_id AND session_id = event.payload->>'session_id';

UPDATE active_sessions SET scene_id = event.payload->>'scene_id', scene_title = event.payload->>'title'
WHERE campaign_id = event.campaign_id;

-- on: scene_ended
UPDATE active_sessions SET scene_id = NULL, scene_title = NULL
WHERE campaign_id = event.campaign_id AND scene_id = event.payload->>'scene_id';

-- on: session_ended
UPDATE sessions SET ended_at = event.occurred_at, recap = event.payload->>'recap'
WHERE campaign_id = event.campaign_id AND session_id = event.payload->>'session_id';

DELETE FROM active_sessions
WHERE campaign_id = event.campaign_id AND session_id = event.payload->>'session_id';

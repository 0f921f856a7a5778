-- projection: scores
-- version: 1
CREATE TABLE scores (
    campaign_id text COLLATE "C",
    player      text COLLATE "C",
    points      integer NOT NULL,
    note        text,
    PRIMARY KEY (campaign_id, player)
);

-- on: scored
INSERT INTO scores (campaign_id, player, points) VALUES (event.campaign_id, event.aggregate_id, (event.payload->>'points')::integer)
ON CONFLICT (campaign_id, player) DO UPDATE SET points = scores.points + excluded.points;

-- on: noted
UPDATE scores SET note = event.payload->>'note' WHERE campaign_id = event.campaign_id AND player = event.aggregate_id;

-- on: left
DELETE FROM scores WHERE campaign_id = event.campaign_id AND player = event.aggregate_id;

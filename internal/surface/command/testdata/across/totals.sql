-- projection: totals
-- version: 1
-- scope: journal
-- key: player = event.aggregate_id
CREATE TABLE totals (
    player text COLLATE "C" PRIMARY KEY,
    points integer NOT NULL
);

-- on: scored
INSERT INTO totals (player, points) VALUES (event.aggregate_id, (event.payload->>'points')::integer)
ON CONFLICT (player) DO UPDATE SET points = totals.points + excluded.points;

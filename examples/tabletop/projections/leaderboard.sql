-- projection: leaderboard
-- version: 1
-- scope: journal
-- key: player = event.payload->>'name'

-- The people of all campaigns, by the number of tables that they have joined.
CREATE TABLE leaderboard (
    player    text COLLATE "C" PRIMARY KEY,
    joined    bigint      NOT NULL,
    led       bigint      NOT NULL, -- as the game master
    latest_at timestamptz NOT NULL
);

CREATE INDEX leaderboard_joined ON leaderboard (joined DESC, player);

-- on: participant_joined
INSERT INTO leaderboard AS l (player, joined, led, latest_at)
VALUES (event.payload->>'name', 1, (event.payload->>'role' = 'game_master')::integer, event.occurred_at)
ON CONFLICT (player) DO UPDATE
SET joined = l.joined + 1, led = l.led + EXCLUDED.led, latest_at = EXCLUDED.latest_at;

-- projection: characters
-- version: 1
-- scope: journal
-- key: character_id = event.payload->>'character_id'

CREATE TABLE characters (
    character_id text COLLATE "C" PRIMARY KEY,
    damage       bigint NOT NULL,
    events       bigint NOT NULL
);

-- on: damage_taken
INSERT INTO characters (character_id, damage, events)
VALUES (event.payload->>'character_id', (event.payload->>'damage')::bigint, 1)
ON CONFLICT (character_id) DO UPDATE
SET damage = characters.damage + EXCLUDED.damage, events = characters.events + 1;

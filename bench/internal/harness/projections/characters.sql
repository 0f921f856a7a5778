-- projection: characters
-- version: 1

CREATE TABLE characters (
    campaign_id  text COLLATE "C" NOT NULL,
    character_id text COLLATE "C" NOT NULL,
    damage       bigint NOT NULL,
    events       bigint NOT NULL,
    PRIMARY KEY (campaign_id, character_id)
);

-- on: damage_taken
INSERT INTO characters (campaign_id, character_id, damage, events)
VALUES (event.campaign_id, event.payload->>'character_id', (event.payload->>'damage')::bigint, 1)
ON CONFLICT (campaign_id, character_id) DO UPDATE
SET damage = characters.damage + EXCLUDED.damage, events = characters.events + 1;

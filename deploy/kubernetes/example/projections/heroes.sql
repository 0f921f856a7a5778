-- projection: heroes
-- version: 1

CREATE TABLE heroes (
    campaign_id text COLLATE "C" NOT NULL,
    hero_id     text COLLATE "C" NOT NULL,
    name        text             NOT NULL,
    PRIMARY KEY (campaign_id, hero_id)
);

-- on: hero_joined
INSERT INTO heroes (campaign_id, hero_id, name)
VALUES (event.campaign_id, event.aggregate_id, event.payload->>'name');

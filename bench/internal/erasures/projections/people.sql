-- projection: people
-- version: 1

CREATE TABLE people (
    campaign_id text COLLATE "C" NOT NULL,
    seq         bigint NOT NULL,
    name        text,
    email       text,
    phone       text,
    PRIMARY KEY (campaign_id, seq)
);

-- on: registered
INSERT INTO people (campaign_id, seq, name, email, phone)
VALUES (event.campaign_id, event.seq, event.payload->'customer'->>'name', event.payload->'customer'->>'email',
    event.payload#>>'{customer,phones,0}');

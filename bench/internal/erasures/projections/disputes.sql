-- projection: disputes
-- version: 1
-- Fails at every dispute, with an error that tells the email.

CREATE TABLE disputes (
    campaign_id text COLLATE "C" NOT NULL,
    seq         bigint NOT NULL,
    email       integer,
    PRIMARY KEY (campaign_id, seq)
);

-- on: disputed
INSERT INTO disputes (campaign_id, seq, email)
VALUES (event.campaign_id, event.seq, (event.payload#>>'{customer,email}')::integer);

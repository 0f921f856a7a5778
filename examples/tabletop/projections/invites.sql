-- projection: invites
-- version: 1

CREATE TABLE invites (
    campaign_id    text COLLATE "C" NOT NULL,
    invite_id      text COLLATE "C" NOT NULL,
    recipient      text             NOT NULL,
    status         text             NOT NULL,
    participant_id text COLLATE "C",
    created_at     timestamptz      NOT NULL,
    settled_at     timestamptz,
    PRIMARY KEY (campaign_id, invite_id)
);

CREATE INDEX ON invites (campaign_id) WHERE status = 'open';

-- on: invite_created
INSERT INTO invites (campaign_id, invite_id, recipient, status, created_at)
VALUES (event.campaign_id, event.payload->>'invite_id', event.payload->>'recipient', 'open', event.occurred_at);

-- on: invite_claimed
UPDATE invites SET status = 'claimed', participant_id = event.payload->>'participant_id', settled_at = event.occurred_at
WHERE campaign_id = event.campaign_id AND invite_id = event.payload->>'invite_id';

-- on: invite_declined
UPDATE invites SET status = 'declined', settled_at = event.occurred_at
WHERE campaign_id = event.campaign_id AND invite_id = event.payload->>'invite_id';

-- on: invite_revoked
UPDATE invites SET status = 'revoked', settled_at = event.occurred_at
WHERE campaign_id = event.campaign_id AND invite_id = event.payload->>'invite_id';

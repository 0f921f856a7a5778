-- projection: orders
-- version: 1

CREATE TABLE orders (campaign_id text PRIMARY KEY, events bigint NOT NULL);

-- on: ordered, campaign_closed
INSERT INTO orders AS o VALUES (event.campaign_id, 1) ON CONFLICT (campaign_id) DO UPDATE SET events = o.events + 1;

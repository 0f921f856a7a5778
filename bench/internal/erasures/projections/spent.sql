-- projection: spent
-- version: 1
-- scope: journal
-- key: email = event.payload->>'email'

CREATE TABLE spent (
    email  text COLLATE "C" PRIMARY KEY,
    amount bigint NOT NULL
);

-- on: ordered
INSERT INTO spent AS s (email, amount)
VALUES (event.payload->>'email', (event.payload->>'amount')::bigint)
ON CONFLICT (email) DO UPDATE SET amount = s.amount + EXCLUDED.amount;

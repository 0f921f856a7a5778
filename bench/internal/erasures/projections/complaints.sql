-- projection: complaints
-- version: 1
-- scope: journal
-- key: email = event.payload->>'email'
-- Fails at every dispute, and holds back the key, which is an email.

CREATE TABLE complaints (
    email     text COLLATE "C" PRIMARY KEY,
    complains integer
);

-- on: disputed
INSERT INTO complaints (email, complains)
VALUES (event.payload->>'email', (event.payload->>'email')::integer)
ON CONFLICT (email) DO NOTHING;

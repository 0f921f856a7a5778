-- projection: session_days
-- version: 1
-- scope: journal
-- key: day = event.occurred_at::date

CREATE TABLE session_days (
    day     date PRIMARY KEY,
    started bigint NOT NULL
);

-- on: session_started
INSERT INTO session_days AS d (day, started) VALUES ((event.occurred_at AT TIME ZONE 'UTC')::date, 1)
ON CONFLICT (day) DO UPDATE SET started = d.started + 1;

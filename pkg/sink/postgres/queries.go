package postgres

// The %s of each statement is the table's quoted name; %[2]s is that name as a string constant.

// queryCreate creates the table if it is missing. It checks first, because CREATE TABLE IF NOT EXISTS
// needs the right to create even if the table exists. It locks only a table that no session has seen
// yet, so it blocks no reader. json, unlike jsonb, keeps a body as it was sent. Another sink may create
// the table at the same moment; the block catches that error, so it is not in the server's log.
const queryCreate = `
DO $create$ BEGIN
IF to_regclass(%[2]s) IS NOT NULL THEN RETURN; END IF;
CREATE TABLE IF NOT EXISTS %[1]s (
  event_id    uuid NOT NULL,
  arrival     bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  arrived_at  timestamptz NOT NULL DEFAULT now(),
  topic       text NOT NULL,
  event_type  text NOT NULL,
  campaign_id text NOT NULL,
  seq         bigint NOT NULL,
  position    bigint NOT NULL,
  created_at  timestamptz NOT NULL,
  attributes  jsonb NOT NULL,
  body        json NOT NULL,
  PRIMARY KEY (campaign_id, event_id)
);
EXCEPTION WHEN unique_violation OR duplicate_table OR duplicate_object THEN
  NULL;
END $create$`

// queryInsert locks the rows it adds. It waits only for a transaction that adds the same events,
// e.g. one whose relay has timed out.
const queryInsert = `
INSERT INTO %s (event_id, topic, event_type, campaign_id, seq, position, created_at, attributes, body)
SELECT event_id, topic, event_type, campaign_id, seq, position, created_at, attributes::jsonb, body::json
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::timestamptz[], $8::text[],
	$9::text[])
  WITH ORDINALITY AS sent (event_id, topic, event_type, campaign_id, seq, position, created_at, attributes, body, place)
ORDER BY place
ON CONFLICT (campaign_id, event_id) DO NOTHING`

// queryReadOnly takes no lock. A standby, or a server being moved, accepts connections but no events.
const queryReadOnly = `SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean`

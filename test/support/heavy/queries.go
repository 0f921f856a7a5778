package heavy

// makeHeavy puts a view in front of the journal. The function counts and waits by sequences, which show other
// transactions' changes at once. It is declared stable, as a cast of the payload is: the planner moves it as it
// would move that. The functions that append go on with the table.
const makeHeavy = `CREATE SCHEMA heavy;
	CREATE SEQUENCE heavy.reads MINVALUE 0 START 0;
	CREATE SEQUENCE heavy.released MINVALUE 0 START 0;
	SELECT nextval('heavy.reads'), nextval('heavy.released');
	CREATE FUNCTION heavy.slow(payload jsonb, seconds float8) RETURNS jsonb STABLE LANGUAGE plpgsql AS $$
	DECLARE
		until timestamptz := clock_timestamp() + make_interval(secs => seconds);
	BEGIN
		PERFORM nextval('heavy.reads');
		WHILE clock_timestamp() < until AND (SELECT last_value FROM heavy.released) = 0 LOOP
			PERFORM pg_sleep(0.02);
		END LOOP;
		RETURN payload;
	END $$;
	ALTER TABLE tidemark.journal RENAME TO journal_behind;
	CREATE VIEW tidemark.journal AS SELECT seq, "position", recorded_at, occurred_at, event_id, payload_bytes,
		event_version, intent, campaign_id, event_type, aggregate_type, aggregate_id, actor, tags,
		CASE WHEN campaign_id = '%s' AND seq = %d THEN heavy.slow(payload, %g) ELSE payload END AS payload, metadata
	FROM tidemark.journal_behind;
	DO $$
	DECLARE
		f oid;
	BEGIN
		FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'tidemark'::regnamespace
			AND prosrc LIKE '%%INTO tidemark.journal AS j%%'
		LOOP
			EXECUTE replace(pg_get_functiondef(f), 'INTO tidemark.journal AS j', 'INTO tidemark.journal_behind AS j');
		END LOOP;
	END $$`

const (
	readsBegun  = `SELECT last_value FROM heavy.reads`
	release     = `SELECT setval('heavy.released', 1)`
	formatLimit = `SELECT format('ALTER DATABASE %I SET statement_timeout = %L', current_database(), $1::bigint)`
)

package heavy

// makeHeavy puts a view in front of the journal. The function counts in a sequence, which no rollback undoes. It is
// declared stable, as a cast of the payload is: the planner moves it as it would move that.
const makeHeavy = `CREATE SCHEMA heavy;
	CREATE SEQUENCE heavy.reads MINVALUE 0 START 0;
	SELECT nextval('heavy.reads');
	CREATE FUNCTION heavy.slow(payload jsonb, seconds float8) RETURNS jsonb STABLE LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM nextval('heavy.reads');
		PERFORM pg_sleep(seconds);
		RETURN payload;
	END $$;
	GRANT USAGE ON SCHEMA heavy TO PUBLIC;
	ALTER TABLE tidemark.journal RENAME TO journal_behind;
	CREATE VIEW tidemark.journal AS SELECT seq, "position", recorded_at, occurred_at, event_id, payload_bytes,
		event_version, intent, campaign_id, event_type, aggregate_type, aggregate_id, actor, tags,
		CASE WHEN campaign_id = '%s' AND seq = %d THEN heavy.slow(payload, %g) ELSE payload END AS payload, metadata
	FROM tidemark.journal_behind`

const readsBegun = `SELECT last_value FROM heavy.reads`

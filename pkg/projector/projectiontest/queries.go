package projectiontest

// Events arrive from where the source has set them aside.
const (
	queryArrive = `
		WITH arrived AS (
			SELECT * FROM unnest($1::text[], $2::bigint[]) AS a (campaign_id, seq)
		), appended AS (
			INSERT INTO tidemark.journal SELECT j.* FROM projectiontest.journal j JOIN arrived USING (campaign_id, seq)
		), tagged AS (
			INSERT INTO tidemark.event_tags SELECT t.* FROM projectiontest.event_tags t
				JOIN projectiontest.journal j USING (position) JOIN arrived USING (campaign_id, seq)
		)
		INSERT INTO tidemark.outbox SELECT o.* FROM projectiontest.outbox o JOIN arrived USING (campaign_id, seq)`

	// queryArrived puts the writer floor behind the events, so that it does not pass those still to come.
	queryArrived = `SELECT setval('tidemark.journal_position', max(position)) FROM tidemark.journal`

	// queryRedeliver files all work items again.
	queryRedeliver = `INSERT INTO tidemark.outbox SELECT * FROM projectiontest.outbox ON CONFLICT DO NOTHING`

	// queryTables returns all user tables except those that work itself changes.
	queryTables = `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
		WHERE schemaname NOT IN ('pg_catalog', 'information_schema')
			AND (schemaname, tablename) NOT IN (('tidemark', 'outbox'), ('tidemark', 'leases'), ('tidemark', 'failed'),
				('tidemark', 'workers'), ('tidemark', 'readers'), ('tidemark', 'relays'), ('tidemark', 'scheduled'),
				('tidemark', 'histories'), ('tidemark', 'incarnation'))
		ORDER BY 1`
)

const (
	// queryPutAside moves the journal to a schema of its own until its events arrive. So the rows are
	// the same, to the microsecond, in any order of arrival. Only that arrival writes tidemark's
	// tables by hand.
	queryPutAside = `
		CREATE SCHEMA projectiontest;
		CREATE TABLE projectiontest.journal AS TABLE tidemark.journal;
		CREATE TABLE projectiontest.outbox AS TABLE tidemark.outbox;
		CREATE TABLE projectiontest.event_tags AS TABLE tidemark.event_tags;
		DELETE FROM tidemark.outbox;
		ALTER TABLE tidemark.event_tags DISABLE TRIGGER USER;
		DELETE FROM tidemark.event_tags;
		ALTER TABLE tidemark.event_tags ENABLE TRIGGER USER;
		ALTER TABLE tidemark.journal DISABLE TRIGGER USER;
		DELETE FROM tidemark.journal;
		ALTER TABLE tidemark.journal ENABLE TRIGGER USER`

	queryPlaces = `SELECT campaign_id, seq FROM projectiontest.journal ORDER BY position`

	queryExtensions = `SELECT extname FROM pg_extension WHERE extname <> 'plpgsql' ORDER BY oid`
)

// formatRows reads a whole table, sorted.
const formatRows = `SELECT to_jsonb(t)::text COLLATE "C" FROM %s t ORDER BY 1`

const queryFails = `SELECT 1/0`

// queryHoldPlaces makes each transaction that moves a place fail.
const (
	queryHoldPlaces = `ALTER TABLE tidemark.readers ADD CONSTRAINT projectiontest CHECK (position = 0)`
	queryFreePlaces = `ALTER TABLE tidemark.readers DROP CONSTRAINT projectiontest`
)

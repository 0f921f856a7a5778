package erasure

import "github.com/jackc/pgx/v5/pgtype"

const (
	// queryBegin waits up to 3 s for archives that are being written. Those that begin later see the erasure.
	queryBegin = `SELECT id, generation, key, began_at, continued, fields, personal, changed
		FROM tidemark.begin_erasure(nullif($1, ''), $2, $3, $4, $5, $6, $7)`

	// queryAbandon takes an interrupted erasure over by its row, and queryKey reads it.
	queryAbandon = `SELECT id, generation, key, began_at, continued, fields, personal, changed, campaign_id
		FROM tidemark.abandon_erasure($1, $2, $3)`
	queryKey = `SELECT key, began_at FROM tidemark.erasure_key($1)`

	// queryCampaigns probes the journal's index on positions for each event of an erasure.
	queryCampaigns = `SELECT DISTINCT j.campaign_id FROM tidemark.erased_events e
		JOIN tidemark.journal j ON j."position" = e."position" WHERE e.erasure = $1 ORDER BY 1`

	// queryHold and queryRelease change the erasure's row, which only its holder changes.
	queryHold    = `SELECT tidemark.hold_erasure($1, $2)`
	queryRelease = `SELECT tidemark.release_erasure($1, $2)`

	// queryErase locks the campaign, as an append does, and changes its events by the primary key. Others queue
	// behind the lock, so it is not waited for long.
	queryErase = `WITH patient AS MATERIALIZED (SELECT set_config('lock_timeout', '300ms', true))
		SELECT tidemark.erase($1, $2, $3, $4, $5, $6) FROM patient`

	// queryTags reads a campaign's range of the primary key, or probes it for each seq.
	queryTags = `SELECT DISTINCT t.tag FROM tidemark.journal j CROSS JOIN LATERAL unnest(j.tags) AS t (tag)
		WHERE j.campaign_id = $1 AND ($2::bigint[] IS NULL OR j.seq = ANY ($2)) AND t.tag <> ALL (coalesce($3::text[], '{}'))
		ORDER BY 1 LIMIT $4`

	// queryScheduled reads a range of the primary key, and locks its rows unless it only counts.
	queryScheduled = `SELECT last, changed FROM tidemark.erase_scheduled($1, $2, nullif($3, ''), $4, $5, $6, $7, $8)`

	// queryEraseItems reads a range of the primary key of operations.
	queryEraseItems = `SELECT tidemark.erase_items($1, $2, $3, $4, $5)`

	// queryForgetStatistics samples pages of the tables.
	queryForgetStatistics = `SELECT tidemark.forget_statistics()`

	// queryTraces changes rows of the campaign by their primary keys.
	queryTraces = `SELECT tidemark.erase_traces($1, $2, $3, $4)`

	// queryMark has processes drop the pages that they keep in memory.
	queryMark = `SELECT nextval('tidemark.erased')`

	// queryEraseKeys reads a range of the primary key.
	queryEraseKeys = `SELECT tidemark.erase_keys($1, $2, $3, $4, $5)`

	// queryEnd reads what operators have resolved across campaigns.
	queryEnd = `SELECT tidemark.end_erasure($1, $2), clock_timestamp()`

	// queryKeys probes the unique index on subjects.
	queryKeys = `SELECT k.id::text, s.subject FROM unnest($1::text[]) AS s (subject)
		JOIN tidemark.keys k ON k.subject = sha256(convert_to(s.subject, 'UTF8'))`

	// queryKeyless returns the subjects without a key, if fields are sealed at all.
	queryKeyless = `SELECT s.subject FROM unnest($1::text[]) WITH ORDINALITY AS s (subject, n)
		WHERE EXISTS (SELECT FROM tidemark.keys) AND NOT EXISTS (
			SELECT FROM tidemark.keys k WHERE k.subject = sha256(convert_to(s.subject, 'UTF8'))) ORDER BY s.n`

	// queryForget deletes rows by the unique index on subjects.
	queryForget = `SELECT tidemark.forget_keys($1, $2, $3)`

	// queryCount reads a campaign's range of the primary key. An archived one has its last event and, in the
	// mark of that, the number of all.
	queryCount = `SELECT count(*), coalesce(max((metadata #>> '{$archived,events}')::bigint)
			FILTER (WHERE event_version = 0), 0), count(*) FILTER (WHERE NOT (coalesce(metadata ? '$erased', false)
				AND tidemark.is_erased("position", event_type, $2))
			AND event_type <> 'events_erased' AND ($2::jsonb IS NULL OR $2::jsonb ? event_type))
		FROM tidemark.journal WHERE campaign_id = $1`

	queryNoJIT = `SELECT set_config('jit', 'off', true)`

	// queryErasedOf probes the primary key of erased subjects, and the index on positions of erased events.
	queryErasedOf = `SELECT campaign_id, seq, subject, left_over FROM tidemark.erased_of($1, $2)`

	// queryTagged reads the index on tags, then probes an event by position for each row.
	queryTagged = `SELECT j.campaign_id, j.seq, t.tag, NOT tidemark.is_erased(t."position", j.event_type, $2)
				AND ($2::jsonb IS NULL OR $2::jsonb ? j.event_type)
		FROM (
			SELECT e."position", e.tag FROM tidemark.event_tags e WHERE e.tag = ANY ($1::text[]) AND e."position" > $3
				AND e."position" <= $4
		) t CROSS JOIN LATERAL (SELECT j.campaign_id, j.seq, j.event_type
			FROM tidemark.journal j WHERE j."position" = t."position" LIMIT 1) j`

	// named are the subjects that a field of an event names, and whether something of it is to be erased.
	named = ` CROSS JOIN LATERAL (
			SELECT CASE WHEN v.value #>> '{}' = ANY ($1::text[]) THEN v.value #>> '{}'
				ELSE ($5::text[])[array_position($4::text[], v.value ->> 'key')] END AS subject
			FROM jsonb_array_elements_text($3::jsonb -> j.event_type) f (path)
				CROSS JOIN LATERAL tidemark.field_values(j.payload, f.path) v (value)
			WHERE v.value #>> '{}' = ANY ($1::text[]) OR v.value ->> 'key' = ANY ($4::text[])
		) s`
	isLeft = `, s.subject, NOT (coalesce(j.metadata ? '$erased', false)
			AND tidemark.is_erased(j."position", j.event_type, $2)) AND ($2::jsonb IS NULL OR $2::jsonb ? j.event_type)`

	// queryNamed reads a range of the index on position.
	queryNamed = `SELECT j.campaign_id, j.seq` + isLeft + ` FROM tidemark.journal j` + named + `
		WHERE j."position" > $6 AND j."position" <= $7`

	// queryLines reads the lines $6 of object $7, but not those of events with a stub that queryTagged finds.
	queryLines = `SELECT j.campaign_id, j.seq` + isLeft + `
		FROM string_to_table(rtrim($6, E'\n'), E'\n') AS t (line) CROSS JOIN LATERAL (
			SELECT l.*, l.type AS event_type FROM jsonb_to_record(t.line::jsonb) AS l (campaign_id text, seq bigint,
				"position" bigint, type text, tags text[], payload jsonb, metadata jsonb)
		) j` + named + `
		WHERE NOT coalesce(j.tags && $1, false) AND $7 = (
				SELECT h.metadata #>> '{$archived,object}' FROM tidemark.journal h
				WHERE h.campaign_id = j.campaign_id ORDER BY h.seq DESC LIMIT 1)`

	// queryArchived reads the manifest of the archive.
	queryArchived = `SELECT coalesce(min(object), '') FROM tidemark.archives WHERE campaigns > 0 AND event_types && $1`

	// queryInUse and queryObjects probe the index on members for each campaign. An object that a campaign
	// needs must never be named for deletion.
	queryInUse = `SELECT object FROM tidemark.archives
		WHERE members @> ARRAY[hashtextextended($1, 0)] AND campaigns > 0 ORDER BY 1`
	queryObjects = `SELECT DISTINCT a.object FROM (SELECT DISTINCT j.campaign_id FROM tidemark.erased_events e
			JOIN tidemark.journal j ON j."position" = e."position" WHERE e.erasure = $1) c
		JOIN tidemark.archives a ON a.members @> ARRAY[hashtextextended(c.campaign_id, 0)] AND a.campaigns = 0
		ORDER BY 1`

	queryLast = `SELECT last_value FROM tidemark.journal_position`

	// queryLeft tells what read models still catch up with.
	queryLeft = `SELECT name FROM (
			SELECT DISTINCT d.projection AS name FROM tidemark.failed d WHERE d.status = 'catching_up'
			UNION SELECT r.projection FROM tidemark.rebuilds r
			UNION SELECT p.name FROM tidemark.projections p WHERE p.name LIKE '%~previous' OR p.version < 0
		) l ORDER BY name`

	// queryTables and queryModels read the catalogue of Postgres. Partitioned tables have rows in partitions alone.
	queryTables = `SELECT c.oid, 'tidemark', c.relname::text,
			pg_relation_size(c.oid) / current_setting('block_size')::bigint
		FROM pg_class c WHERE c.relnamespace = 'tidemark'::regnamespace AND c.relkind = 'r' AND c.relname NOT IN ('journal',
			'erasures', 'erased_events', 'erased_subjects', 'erased_values', 'erasure_secret', 'keys', 'deleted_keys')
		ORDER BY 3`
	// queryModels returns -2 pages of what is no table, such as a view.
	queryModels = `SELECT c.oid, n.nspname::text, c.relname::text, CASE WHEN c.relkind = 'r'
			THEN coalesce(pg_relation_size(c.oid), 0) / current_setting('block_size')::bigint ELSE -2 END
		FROM (SELECT DISTINCT coalesce(p.relid, r.oid) AS oid FROM unnest($1::text[], $2::text[]) AS t (schema, name)
			JOIN pg_namespace s ON s.nspname = t.schema JOIN pg_class r ON r.relnamespace = s.oid AND r.relname = t.name
			LEFT JOIN LATERAL pg_partition_tree(r.oid) p ON p.isleaf) t
		JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind <> 'p' ORDER BY 2, 3`

	queryPages = `SELECT pg_relation_size('tidemark.journal') / current_setting('block_size')::bigint`

	// queryList walks the primary key.
	queryList = `SELECT id, coalesce(campaign_id, ''), began_at, ended_at, CASE
			WHEN ended_at IS NOT NULL AND abandoned_by IS NOT NULL THEN 'abandoned' WHEN ended_at IS NOT NULL THEN 'ended'
			WHEN held_until > clock_timestamp() THEN 'running' ELSE 'interrupted' END, holder,
			CASE WHEN ended_at IS NULL AND held_until > clock_timestamp() THEN held_until END, actor, reason, changed
		FROM tidemark.erasures WHERE $1 = 0 OR id < $1 ORDER BY id DESC LIMIT $2`

	// queryKnown compares the time too: after a restore of a backup, another erasure may have the number.
	queryKnown = `SELECT ended_at IS NOT NULL, ended_at IS NOT NULL AND abandoned_by IS NOT NULL, personal IS NULL
		FROM tidemark.erasures WHERE id = $1 AND began_at = $2`

	// queryAlone has names mean Postgres' own objects, and policies that would hide rows be an error.
	queryAlone = `SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
		pg_catalog.set_config('row_security', 'off', true)`

	queryValues = `SELECT hash, words FROM tidemark.erased_values WHERE erasure = $1`

	// querySearch and queryJournal read a range of a table's pages.
	querySearch  = `SELECT t.* FROM %s t WHERE t.tableoid = $1 AND t.ctid >= $2::tid AND t.ctid < $3::tid`
	queryJournal = `SELECT t.payload::text, t.metadata::text, t.actor, t.aggregate_id, t.tags::text,
			coalesce(t.metadata ? '$erased', false) AND EXISTS (SELECT FROM tidemark.erased_events e
				WHERE e.erasure = $1 AND e."position" = t."position")
		FROM tidemark.journal t WHERE t.ctid >= $2::tid AND t.ctid < $3::tid`
)

// journalColumns are the types of the texts that queryJournal returns.
//
//nolint:gochecknoglobals // never written
var journalColumns = [5]uint32{pgtype.JSONBOID, pgtype.JSONBOID, pgtype.TextOID, pgtype.TextOID, pgtype.TextOID}

package erasure

const (
	// queryBegin waits for archives that are being written. Those that begin later see the erasure.
	queryBegin = `WITH alone AS MATERIALIZED (
			SELECT set_config('lock_timeout', '3s', true), pg_advisory_xact_lock(tidemark.lock_key(32009, 0))
		)
		INSERT INTO tidemark.erasures (campaign_id, actor, reason) SELECT nullif($1, ''), $2, $3 FROM alone
		RETURNING id, began_at`

	// queryErase locks the campaign, as an append does, and changes its events by the primary key.
	queryErase = `SELECT tidemark.erase($1, $2, $3, $4, $5, $6)`

	// queryTraces changes rows of the campaign by their primary keys.
	queryTraces = `SELECT tidemark.erase_traces($1, $2, $3)`

	// queryMark has processes drop the pages that they keep in memory.
	queryMark = `SELECT nextval('tidemark.erased')`

	queryUnfinished = `SELECT id, began_at FROM tidemark.erasures WHERE ended_at IS NULL
		AND campaign_id IS NOT DISTINCT FROM nullif($1, '')`

	// queryEraseKeys reads a range of the primary key.
	queryEraseKeys = `SELECT tidemark.erase_keys($1, $2, $3, $4, $5)`

	// queryEnd reads what operators have resolved across campaigns.
	queryEnd = `SELECT tidemark.end_erasure($1), clock_timestamp()`

	// queryKeys probes the unique index on subjects.
	queryKeys = `SELECT k.id::text FROM unnest($1::text[]) AS s (subject)
		JOIN tidemark.keys k ON k.subject = sha256(convert_to(s.subject, 'UTF8'))`

	// queryKeyless returns the subjects without a key, if fields are sealed at all.
	queryKeyless = `SELECT s.subject FROM unnest($1::text[]) WITH ORDINALITY AS s (subject, n)
		WHERE EXISTS (SELECT FROM tidemark.keys) AND NOT EXISTS (
			SELECT FROM tidemark.keys k WHERE k.subject = sha256(convert_to(s.subject, 'UTF8'))) ORDER BY s.n`

	// queryForget deletes rows by the unique index on subjects.
	queryForget = `SELECT tidemark.forget_keys($1)`

	// queryCount reads a campaign's range of the primary key. An archived one has its last event and, in the
	// mark of that, the number of all.
	queryCount = `SELECT count(*), coalesce(max((metadata #>> '{$archived,events}')::bigint)
			FILTER (WHERE event_version = 0), 0), count(*) FILTER (WHERE NOT (coalesce(metadata ? '$erased', false)
				AND tidemark.is_erased("position", metadata, payload, $2::jsonb IS NULL))
			AND event_type <> 'events_erased' AND ($2::jsonb IS NULL OR $2::jsonb ? event_type))
		FROM tidemark.journal WHERE campaign_id = $1`

	// queryTagged reads the index on tags, then probes an event by position for each row.
	queryTagged = `SELECT j.campaign_id, j.seq FROM (
			SELECT DISTINCT e."position" FROM tidemark.event_tags e WHERE e.tag = ANY ($1::text[]) AND e."position" > $3
				AND e."position" <= $4
		) t CROSS JOIN LATERAL (SELECT j.campaign_id, j.seq, j.metadata, j.payload, j.event_type
			FROM tidemark.journal j WHERE j."position" = t."position" LIMIT 1) j
		WHERE NOT tidemark.is_erased(t."position", j.metadata, j.payload, $2::jsonb IS NULL)
			AND ($2::jsonb IS NULL OR $2::jsonb ? j.event_type)`

	// named is what the events of the subjects have that a field names.
	named = ` NOT (coalesce(j.metadata ? '$erased', false)
				AND tidemark.is_erased(j."position", j.metadata, j.payload, $2::jsonb IS NULL))
			AND ($2::jsonb IS NULL OR $2::jsonb ? j.event_type)
			AND EXISTS (SELECT FROM jsonb_array_elements_text($3::jsonb -> j.event_type) f (path)
				WHERE j.payload #>> string_to_array(f.path, '.') = ANY ($1::text[])
					OR j.payload #>> string_to_array(f.path || '.key', '.') = ANY ($4::text[]))`

	// queryNamed reads a range of the index on position.
	queryNamed = `SELECT j.campaign_id, j.seq FROM tidemark.journal j
		WHERE j."position" > $5 AND j."position" <= $6 AND` + named

	// queryLines reads the lines $5 of object $6, but not those of events with a stub that queryTagged finds.
	queryLines = `SELECT j.campaign_id, j.seq
		FROM string_to_table(rtrim($5, E'\n'), E'\n') AS t (line) CROSS JOIN LATERAL (
			SELECT l.*, l.type AS event_type FROM jsonb_to_record(t.line::jsonb) AS l (campaign_id text, seq bigint,
				"position" bigint, type text, tags text[], payload jsonb, metadata jsonb)
		) j
		WHERE NOT coalesce(j.tags && $1, false) AND` + named + ` AND $6 = (
				SELECT h.metadata #>> '{$archived,object}' FROM tidemark.journal h
				WHERE h.campaign_id = j.campaign_id ORDER BY h.seq DESC LIMIT 1)`

	// queryArchived reads the manifest of the archive.
	queryArchived = `SELECT coalesce(min(object), '') FROM tidemark.archives WHERE campaigns > 0 AND event_types && $1`

	// queryInUse and queryObjects probe the index on members for each campaign. An object that a campaign
	// needs must never be named for deletion.
	queryInUse = `SELECT object FROM tidemark.archives
		WHERE members @> ARRAY[hashtextextended($1, 0)] AND campaigns > 0 ORDER BY 1`
	queryObjects = `SELECT DISTINCT a.object FROM (SELECT DISTINCT j.campaign_id FROM tidemark.erased_events e
			JOIN tidemark.journal j ON j."position" = e."position" WHERE e.erasure = ANY ($1)) c
		JOIN tidemark.archives a ON a.members @> ARRAY[hashtextextended(c.campaign_id, 0)] AND a.campaigns = 0
		ORDER BY 1`

	queryLast = `SELECT last_value FROM tidemark.journal_position`

	// queryLeft tells what read models still catch up with.
	queryLeft = `SELECT name FROM (
			SELECT DISTINCT d.projection AS name FROM tidemark.deferred d WHERE d.status = 'rebuilding'
			UNION SELECT r.projection FROM tidemark.rebuilds r
			UNION SELECT p.name FROM tidemark.projections p WHERE p.name LIKE '%~previous'
		) l ORDER BY name`

	queryTables = `SELECT 'tidemark', c.relname::text, pg_relation_size(c.oid) / current_setting('block_size')::bigint,
			false
		FROM pg_class c WHERE c.relnamespace = 'tidemark'::regnamespace AND c.relkind IN ('r', 'p')
			AND c.relname NOT IN ('journal', 'erasures', 'erased_events', 'erased_values', 'keys') ORDER BY 1`

	// queryPages returns -1 if there is no such relation, and -2 for one that is no table, such as a view.
	queryPages = `SELECT coalesce((SELECT CASE WHEN c.relkind IN ('r', 'p')
			THEN pg_relation_size(c.oid) / current_setting('block_size')::bigint ELSE -2 END
		FROM pg_class c WHERE c.oid = to_regclass($1)), -1)`

	// queryList walks the primary key.
	queryList = `SELECT id, coalesce(campaign_id, ''), began_at, ended_at, actor, reason, changed FROM tidemark.erasures
		WHERE $1 = 0 OR id < $1 ORDER BY id DESC LIMIT $2`

	queryKnown = `SELECT EXISTS (SELECT FROM tidemark.erasures WHERE id = $1)`

	// queryAlone has names mean Postgres' own objects, and policies that would hide rows be an error.
	queryAlone = `SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
		pg_catalog.set_config('row_security', 'off', true)`

	// querySearch and queryShared read a range of a table's pages, and probe a primary key for each text
	// in its rows.
	querySearch = `SELECT count(*) FROM %s t WHERE t.ctid >= $3::tid AND t.ctid < $4::tid AND EXISTS (
		SELECT FROM tidemark.texts(to_jsonb(t)) x JOIN tidemark.erased_values v
			ON v.erasure = $1 AND v.hash = sha256($2::bytea || convert_to(x, 'UTF8')) AND v.hash <> ALL ($5::bytea[]))`
	queryShared = `SELECT count(DISTINCT t.ctid), coalesce(array_agg(DISTINCT v.hash), '{}') FROM tidemark.journal t
		CROSS JOIN LATERAL tidemark.texts(jsonb_build_array(t.payload, t.metadata, t.actor, t.aggregate_id, t.tags)) x
		JOIN tidemark.erased_values v ON v.erasure = $1 AND v.hash = sha256($2::bytea || convert_to(x, 'UTF8'))
		WHERE t.ctid >= $3::tid AND t.ctid < $4::tid`
)

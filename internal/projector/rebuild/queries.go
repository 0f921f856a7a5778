package rebuild

import "github.com/tidemark-go/tidemark/internal/projector/registry"

// The statements of rebuilds. Their tables have one row per projection, and change under the registry's lock.
const (
	queryRebuildRows = `SELECT ` + registry.Columns + `,
			p.declined, coalesce(p.kept_until <= clock_timestamp(), false), r.max_share
		FROM tidemark.projections p LEFT JOIN tidemark.rebuilds r ON p.name = r.projection || '~next'
		WHERE p.consumer_group = $1 ORDER BY p.name`

	querySets = `SELECT ` + registry.Columns + `,
			p.own_objects, p.declined
		FROM tidemark.projections p WHERE p.name = ANY ($1) ORDER BY p.name`
	queryLockSets = querySets + ` FOR UPDATE OF p`

	// queryRequest asks workers that have the code to begin. They bring the tables and the version.
	queryRequest = `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
		VALUES ($1, $2, $3, '', '{}', 'requested')`

	// queryWriteRebuild keeps a row that exists: a worker that begins by itself has no options of its own.
	queryWriteRebuild = `INSERT INTO tidemark.rebuilds AS r (projection, max_share, allow_failed, keep, verify_sample,
		verify_ignore, actor, reason, version)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (projection) DO NOTHING`
	queryChangeRebuild = `UPDATE tidemark.rebuilds SET max_share = coalesce($2, max_share),
		allow_failed = coalesce($3, allow_failed), keep = coalesce($4, keep),
		verify_sample = coalesce($5, verify_sample), verify_ignore = coalesce($6, verify_ignore), refusal = NULL,
			refused_at = NULL
		WHERE projection = $1`
	queryReadRebuild = `SELECT allow_failed, keep, verify_sample, verify_ignore,
		coalesce(refused_at > clock_timestamp() - interval '10 s', false) FROM tidemark.rebuilds WHERE projection = $1`
	// queryRebuildActor probes the primary key.
	queryRebuildActor = `SELECT actor, reason FROM tidemark.rebuilds WHERE projection = $1`
	// queryMeasureRebuild returns how much there is to do. It reads the group's leases, so it runs
	// before the registry's lock is taken; queryNoteMeasure stores the result.
	queryMeasureRebuild = `SELECT count(*), coalesce(sum(l.checkpoint), 0)::bigint FROM tidemark.leases l
		WHERE l.consumer_group = $1 AND l.checkpoint > 0`
	queryNoteMeasure = `UPDATE tidemark.rebuilds r SET campaigns = $2, events = $3, active_at = clock_timestamp()
		WHERE r.projection = $1`
	queryRefuse         = `UPDATE tidemark.rebuilds SET refusal = $2, refused_at = clock_timestamp() WHERE projection = $1`
	queryPreviewRefusal = `UPDATE tidemark.rebuilds SET refusal = $2 WHERE projection = $1`
	queryForgetRebuild  = `DELETE FROM tidemark.rebuilds WHERE projection = $1`

	// QueryWithdraw takes a set of tables from the workers, and ends its rebuild. One that was requested
	// since then begins when the tables are gone: queryFollow.
	QueryWithdraw = `WITH ended AS (
			DELETE FROM tidemark.rebuilds r USING tidemark.projections p
			WHERE p.name = $1 AND p.version <> $2 AND r.projection || '~next' = p.name
		) UPDATE tidemark.projections SET state = 'requested', version = $2 WHERE name = $1`
	queryFollowing = `SELECT version FROM tidemark.rebuilds WHERE projection = $1`
	queryFollow    = `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
		SELECT $1, $2, r.version, '', '{}', 'requested' FROM tidemark.rebuilds r WHERE r.projection = $3`

	// queryOurs reports whether the session may drop a schema, which runs no code of its owner. A schema
	// that is missing is dropped already.
	queryOurs = `SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = $1
		AND NOT pg_catalog.pg_has_role(n.nspowner, 'USAGE'))`
	queryOurTable = `SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_class c
		WHERE c.oid = pg_catalog.to_regclass($1) AND NOT pg_catalog.pg_has_role(c.relowner, 'USAGE'))
			OR pg_catalog.pg_has_role((SELECT nspowner FROM pg_catalog.pg_namespace WHERE nspname = $2), 'USAGE')`

	queryForgetRow = `DELETE FROM tidemark.projections WHERE name = $1`
	queryDecline   = `UPDATE tidemark.projections SET declined = greatest(declined, $2) WHERE name = $1`

	// queryTakeSet renames and moves a set of tables, and sets until when it is kept.
	queryTakeSet = `UPDATE tidemark.projections SET name = $2, schema_name = $3,
		kept_until = clock_timestamp() + $4::interval, declined = $5 WHERE name = $1`

	// queryKeepLonger postpones the removal of tables that cannot be dropped.
	queryDropReplaced = `UPDATE tidemark.projections SET kept_until = clock_timestamp() WHERE name LIKE '%~previous'`

	queryKeepLonger = `UPDATE tidemark.projections SET kept_until = clock_timestamp() + interval '1 hour' WHERE name = $1`

	// queryBehind counts campaigns that are behind that prevent a swap, by their index: up to 1 that still
	// catches up, and up to $3 + 1 that are failed or dead.
	queryBehind = `SELECT
		(SELECT count(*) FROM (SELECT FROM tidemark.failed d WHERE d.consumer_group = $1 AND d.projection = $2
			AND d.status = 'catching_up' LIMIT 1) x),
		(SELECT count(*) FROM (SELECT FROM tidemark.failed d WHERE d.consumer_group = $1 AND d.projection = $2
			AND d.status IN ('failed', 'dead') LIMIT $3 + 1) x)`

	// The statements of copying. The cursor's row is locked while the leases' primary key yields the next range.
	queryCopyCursor = `SELECT r.copied_to FROM tidemark.rebuilds r WHERE r.projection = $1 AND EXISTS (
			SELECT FROM tidemark.projections p WHERE p.name = $1 || '~next' AND p.state = 'copying' AND NOT EXISTS (
				SELECT FROM tidemark.pauses x WHERE x.scope = 'projection' AND x.consumer_group = p.consumer_group
					AND x.name = p.name AND x.expires_at > clock_timestamp()))
		FOR UPDATE`
	queryNextRange = `SELECT l.campaign_id, l.checkpoint FROM tidemark.leases l
		WHERE l.consumer_group = $1 AND l.campaign_id > $2 ORDER BY l.consumer_group, l.campaign_id LIMIT $3`
	queryMoveCopyCursor = `UPDATE tidemark.rebuilds SET copied_to = $2 WHERE projection = $1`

	// queryCopying reports whether the rebuild copies. The registry's lock keeps that so.
	queryCopying = `SELECT EXISTS (SELECT FROM tidemark.projections p WHERE p.name = $1 AND p.version = $2
		AND p.state = 'copying')`

	// queryRangeFiled walks the primary key of campaigns that are behind through the range.
	queryRangeFiled = `SELECT d.campaign_id FROM tidemark.failed d WHERE d.consumer_group = $1 AND d.projection = $2
		AND d.campaign_id > $3 AND d.campaign_id <= $4`
	queryRangeDone = `INSERT INTO tidemark.rebuild_ranges (projection, first, last, campaigns, events)
		VALUES ($1, $2, $3, $4, $5)`

	// queryCommitLater makes the commit not wait for the disk. If the server loses it, it also
	// loses all later commits, so a range that is known to be copied is there. The end of the
	// copying is committed later, and waits for all of it.
	queryCommitLater = `SELECT set_config('synchronous_commit', 'off', true)`

	// queryEndCopy runs under the registry's exclusive lock.
	queryEndCopy = `UPDATE tidemark.projections SET state = 'copied' WHERE name = $1 AND version = $2
		AND state = 'copying'`
	queryBeginCopy    = `UPDATE tidemark.projections SET state = 'copying' WHERE name = $1`
	queryForgetRanges = `DELETE FROM tidemark.rebuild_ranges WHERE projection = $1`

	// queryMoreBehind and queryCountBehind read the index of the projection's campaigns that are behind:
	// the first one up to $3 + 1 rows, under the registry's lock; the second one all of them.
	queryMoreBehind = `SELECT count(*) > $3 FROM (SELECT FROM tidemark.failed d WHERE d.consumer_group = $1
		AND d.projection = $2 LIMIT $3 + 1) x`
	queryCountBehind = `SELECT count(*) FROM tidemark.failed d WHERE d.consumer_group = $1 AND d.projection = $2`

	// queryPassing returns the columns of a schema's tables whose default depends on time or chance.
	queryPassing = `SELECT c.relname || '.' || a.attname
		FROM pg_catalog.pg_attrdef d JOIN pg_catalog.pg_class c ON c.oid = d.adrelid
			JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.adnum
		WHERE n.nspname = $1 AND pg_catalog.pg_get_expr(d.adbin,
			d.adrelid) ~* '(now[(][)]|timestamp[(][)]|current_(timestamp|date|time)|localtime|random|uuid_generate)'`

	// queryProgress sums up what is left of each rebuild. It counts up to 10,000 campaigns that are behind
	// campaigns, and probes the lease of each; if there are more, these stand for the rest.
	queryProgress = `SELECT r.projection, p.consumer_group, l.version,
			CASE WHEN p.version < 0 THEN r.version ELSE p.version END, p.state, r.max_share, r.allow_failed,
		r.keep, r.verify_sample, r.actor, r.reason, r.started_at, r.active_at,
			coalesce(r.campaigns, 0), coalesce(r.events, 0), coalesce(r.refusal, ''), EXISTS (
				SELECT FROM tidemark.pauses x WHERE x.scope = 'projection' AND x.consumer_group = p.consumer_group
					AND x.name = p.name AND x.expires_at > clock_timestamp()),
			CASE p.state WHEN 'active' THEN q.rebuilding + a.partitions ELSE greatest(r.campaigns - c.campaigns, 0) END,
			CASE p.state WHEN 'active' THEN a.events + (b.events * greatest((q.rebuilding + q.failed + q.dead) /
				greatest(b.looked, 1)::float8, 1))::bigint ELSE greatest(r.events - c.events, 0) END,
			q.failed, q.dead, q.estimated OR b.looked >= 10000, clock_timestamp()
		FROM tidemark.rebuilds r JOIN tidemark.projections p ON p.name = r.projection || '~next'
			JOIN tidemark.projections l ON l.name = r.projection
		CROSS JOIN LATERAL (
			SELECT coalesce(sum(c.campaigns), 0)::bigint AS campaigns, coalesce(sum(c.events), 0)::bigint AS events
				FROM tidemark.rebuild_ranges c WHERE c.projection = p.name
		) c
		CROSS JOIN LATERAL (
			SELECT coalesce(sum(s.pairs) FILTER (WHERE s.status = 'catching_up'), 0)::bigint AS rebuilding,
				coalesce(sum(s.pairs) FILTER (WHERE s.status = 'failed'), 0)::bigint AS failed,
				coalesce(sum(s.pairs) FILTER (WHERE s.status = 'dead'), 0)::bigint AS dead,
					coalesce(bool_or(s.estimated), false) AS estimated
			FROM tidemark.failed_report(5000, 24) s WHERE s.consumer_group = p.consumer_group AND s.projection = p.name
		) q
		CROSS JOIN LATERAL (
			SELECT count(*) AS looked, coalesce(sum(greatest(coalesce(e.checkpoint, 0) - d.next_seq + 1, 0)),
				0)::bigint AS events
			FROM (
				(SELECT d.campaign_id, d.next_seq FROM tidemark.failed d
				WHERE d.consumer_group = p.consumer_group AND d.projection = p.name AND d.next_attempt_at < 'infinity' LIMIT 10000)
				UNION ALL
				(SELECT d.campaign_id, d.next_seq FROM tidemark.failed d
				WHERE d.status IN ('failed', 'dead') AND d.consumer_group = p.consumer_group AND d.projection = p.name
					AND d.status = 'dead' AND d.next_attempt_at = 'infinity' LIMIT 10000)
			) d
			LEFT JOIN LATERAL (SELECT e.checkpoint FROM tidemark.leases e WHERE e.consumer_group = p.consumer_group
				AND e.campaign_id = d.campaign_id OFFSET 0) e ON true
		) b
		CROSS JOIN LATERAL (
			SELECT count(*) FILTER (WHERE n.position < t.position) AS partitions,
				coalesce(avg(greatest(t.position - n.position, 0)), 0)::bigint AS events
			FROM tidemark.readers n CROSS JOIN (SELECT max(m.position) AS position FROM tidemark.readers m
				WHERE m.topic = l.name AND m.kind = 'projection') t
			WHERE n.topic = p.name AND n.kind = 'projection'
		) a
		WHERE $1 = '' OR r.projection = $1 ORDER BY r.projection`
)

// queryProjections reads a table of one row per projection.
const queryProjections = `SELECT name, consumer_group, version, schema_name, table_names, state, registered_at, scope
	FROM tidemark.projections ORDER BY name`

// queryOthers compares the SQL files of live workers with those that made the tables: a row for each of both.
const queryOthers = `SELECT p.name, p.version, p.other_since,
		array_agg(format('%s (process %s)', w.host, w.pid) ORDER BY w.started_at, w.owner)
	FROM tidemark.projections p JOIN tidemark.workers w ON w.consumer_group = p.consumer_group
	WHERE p.other <> '' AND w.statements ->> format('%s/%s', p.name, p.version) <> p.statements
		AND w.seen_at > clock_timestamp() - interval '5 s'
	GROUP BY p.name ORDER BY p.name`

// queryForeignObjects returns what the row $1 names and its writer may not drop: tables if $2, else the schema.
// It reads the catalogue by name. Only an owner can have a name mean something else afterwards.
const queryForeignObjects = `SELECT o.name, o.owner::regrole::text, p.written_by FROM tidemark.projections p
		CROSS JOIN LATERAL (
			SELECT 'schema ' || quote_ident(n.nspname) AS name, n.nspowner AS owner, n.nspowner FROM pg_namespace n
			WHERE n.nspname = p.schema_name AND NOT $2
			UNION ALL SELECT format('table %I.%I', n.nspname, c.relname), c.relowner, n.nspowner FROM pg_namespace n
				JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = ANY (p.table_names)
			WHERE n.nspname = p.schema_name AND $2
		) AS o CROSS JOIN LATERAL (SELECT to_regrole(quote_ident(p.written_by))::oid AS role OFFSET 0) AS w
	WHERE p.name = $1 AND NOT coalesce(pg_has_role(w.role, o.owner, 'MEMBER')
		OR pg_has_role(w.role, o.nspowner, 'MEMBER'), false)
	ORDER BY o.name`

// queryRemove deletes one row by its primary key, under the registry's lock.
const queryRemove = `DELETE FROM tidemark.projections WHERE name = $1
	RETURNING consumer_group, schema_name, table_names`

package failed

// Replays. Pairs are found by primary key, one probe a campaign, after the leases have been locked;
// what a replay is about is chosen before.
const (
	// queryReplayable reads the registry: the projections that have tables, and of each the tables
	// whose rows cannot be told apart by campaign. What is only requested, or withdrawn, has
	// nothing to replay.
	queryReplayable = `SELECT p.name, p.state, p.own_reset, cardinality(p.table_names), ARRAY(
			SELECT format('%I.%I', p.schema_name, t.name) FROM unnest(p.table_names) AS t (name)
			WHERE NOT EXISTS (
				SELECT FROM pg_catalog.pg_class c
				JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
				JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped
				JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
				WHERE n.nspname = p.schema_name AND c.relname = t.name AND a.attname = 'campaign_id' AND y.typcategory = 'S'
			))
		FROM tidemark.projections p WHERE p.consumer_group = $1 AND ($2 = '' OR p.name = $2) AND p.state <> 'requested'
			ORDER BY p.name`

	// queryReplayableNow locks the rows as well, so that what is filed is about the tables that
	// were found: what copies, exchanges or withdraws them waits for the transaction. Replays do
	// not wait for each other.
	queryReplayableNow = queryReplayable + ` FOR SHARE OF p`

	// queryNoCampaign probes the journal's primary key once a campaign.
	queryNoCampaign = `SELECT c.campaign_id FROM unnest($1::text[]) AS c (campaign_id)
		WHERE NOT EXISTS (SELECT FROM tidemark.journal j WHERE j.campaign_id = c.campaign_id OFFSET 0) LIMIT 1`

	// queryReplay files pairs, or puts those that are there back. A pair that stands before the event
	// where the replay begins stays there, or events between the two would be skipped; a reset that is
	// still to be done is done. A campaign that has not got to the event needs no replay: it comes to
	// it. $7 and $8 are where each projection begins, and whether its rows are deleted first.
	queryReplay = `WITH wanted AS MATERIALIZED (
			SELECT c.campaign_id, p.projection, p.first, p.reset
			FROM unnest($2::text[]) AS c (campaign_id) CROSS JOIN LATERAL (
				SELECT l.checkpoint FROM tidemark.leases l WHERE l.consumer_group = $1 AND l.campaign_id = c.campaign_id OFFSET 0
			) l
			CROSS JOIN unnest($3::text[], $7::bigint[], $8::boolean[]) AS p (projection, first, reset)
			WHERE l.checkpoint >= greatest($4::bigint, 1)
		), filed AS (
			INSERT INTO tidemark.deferred AS d (campaign_id, projection, consumer_group, next_seq, status, next_attempt_at,
				reset)
			SELECT w.campaign_id, w.projection, $1, w.first, 'rebuilding', now(), w.reset
			FROM wanted w ORDER BY w.campaign_id, w.projection
			ON CONFLICT (campaign_id, projection) DO UPDATE SET
				next_seq = least(d.next_seq, excluded.next_seq), status = 'rebuilding', attempt_count = 0,
					next_attempt_at = now(),
				reset = d.reset OR excluded.reset, ` + forgotten + `
			RETURNING d.campaign_id, d.projection, d.next_seq
		), logged AS (
			INSERT INTO tidemark.failure_log (act, consumer_group, projection, campaign_id, seq, actor, reason)
			SELECT 'replayed', $1, f.projection, f.campaign_id, f.next_seq, $5, nullif($6, '') FROM filed f
				ORDER BY f.campaign_id, f.projection
		)
		SELECT count(*) FROM filed`

	// queryMovedCampaigns walks the leases' primary key.
	queryMovedCampaigns = `SELECT l.campaign_id FROM tidemark.leases l
		WHERE l.consumer_group = $1 AND l.campaign_id > $2 AND l.checkpoint > 0 ORDER BY l.consumer_group, l.campaign_id
			LIMIT $3`

	// queryCountCampaigns reads the leases of the group, or probes those named.
	queryCountCampaigns = `SELECT count(*) FROM tidemark.leases l
		WHERE l.consumer_group = $1 AND l.checkpoint >= greatest($2::bigint, 1)
			AND ($3::text[] IS NULL OR l.campaign_id = ANY ($3))`
)

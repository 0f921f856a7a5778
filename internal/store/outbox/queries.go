package outbox

const (
	// queryRegister writes one row of a table that appends read. It waits for no lock.
	queryRegister = `INSERT INTO tidemark.consumer_groups (name) VALUES ($1) ON CONFLICT DO NOTHING`

	// queryEnqueues makes appends enqueue and files the backlog; queryRegisterInline stops the enqueueing.
	queryEnqueues = `UPDATE tidemark.consumer_groups SET state = 'filing'
		WHERE name = $1 AND state IN ('inline', 'across')`
	queryRegisterAcross = `INSERT INTO tidemark.consumer_groups (name, state) VALUES ($1, 'across') ON CONFLICT DO NOTHING`
	queryRegisterInline = `INSERT INTO tidemark.consumer_groups AS g (name, state) VALUES ($1, 'inline')
		ON CONFLICT (name) DO UPDATE SET state = 'inline' WHERE g.state <> 'inline'`

	queryState = `SELECT state FROM tidemark.consumer_groups WHERE name = $1`

	// queryNextPosition burns a position. Appends that began earlier hold the writer floor below it.
	queryNextPosition = `SELECT nextval('tidemark.journal_position')`

	// queryFile reads up to $3 campaigns after $2 along the journal's primary key. It files one work
	// item per campaign that is behind, since workers read on from the checkpoint. It returns the last
	// campaign read.
	queryFile = `WITH RECURSIVE walk AS (
			SELECT $2::text COLLATE "C" AS campaign_id, 0 AS steps
			UNION ALL
			SELECT n.campaign_id, w.steps + 1
			FROM walk w CROSS JOIN LATERAL (
				SELECT j.campaign_id FROM tidemark.journal j WHERE j.campaign_id > w.campaign_id ORDER BY j.campaign_id LIMIT 1
			) n
			WHERE w.steps < $3
		), filed AS (
			INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
			SELECT $1, w.campaign_id, h.seq, h.recorded_at, h.seq - coalesce(l.checkpoint, 0)
			FROM walk w CROSS JOIN LATERAL (
				SELECT j.seq, j.recorded_at FROM tidemark.journal j WHERE j.campaign_id = w.campaign_id ORDER BY j.seq DESC LIMIT 1
			) h
			LEFT JOIN LATERAL (
				SELECT l.checkpoint FROM tidemark.leases l WHERE l.consumer_group = $1 AND l.campaign_id = w.campaign_id OFFSET 0
			) l ON true
			WHERE w.steps > 0 AND h.seq > coalesce(l.checkpoint, 0)
			ON CONFLICT DO NOTHING
		)
		SELECT max(campaign_id), count(*) FILTER (WHERE steps > 0) FROM walk`

	// queryEnqueue probes the primary keys of journal and leases once per campaign.
	queryEnqueue = `INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
		SELECT $1, c.campaign_id, h.seq, h.recorded_at, greatest(h.seq - coalesce(l.checkpoint, 0), 1)
		FROM (SELECT * FROM unnest($2::text[]) AS c (campaign_id) ORDER BY 1) c CROSS JOIN LATERAL (
			SELECT j.seq, j.recorded_at FROM tidemark.journal j WHERE j.campaign_id = c.campaign_id ORDER BY j.seq DESC LIMIT 1
		) h LEFT JOIN LATERAL (
			SELECT l.checkpoint FROM tidemark.leases l WHERE l.consumer_group = $1 AND l.campaign_id = c.campaign_id OFFSET 0
		) l ON true
		ON CONFLICT DO NOTHING`

	queryReady = `UPDATE tidemark.consumer_groups SET state = 'ready' WHERE name = $1 AND state = 'filing'`

	// queryGaps probes the primary keys of journal and leases once per campaign. See migrations/functions/outbox.sql.
	queryGaps = `SELECT campaign_ids, checkpoints, heads, next, walked FROM tidemark.gaps($1, $2, $3)`

	// queryRepairGap files one campaign as queryFile does, unless its checkpoint has moved to the head
	// or it has work. It logs the repair and wakes waiting workers.
	queryRepairGap = `WITH head AS MATERIALIZED (
			SELECT j.campaign_id, j.seq, j.recorded_at FROM tidemark.journal j WHERE j.campaign_id = $2
				ORDER BY j.campaign_id DESC, j.seq DESC LIMIT 1
		), filed AS (
			INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
			SELECT g.name, h.campaign_id, h.seq, h.recorded_at, h.seq - coalesce(l.checkpoint, 0)
			FROM head h JOIN tidemark.consumer_groups g ON g.name = $1
			LEFT JOIN LATERAL (SELECT l.checkpoint FROM tidemark.leases l WHERE l.consumer_group = $1
				AND l.campaign_id = $2 OFFSET 0) l ON true
			WHERE h.seq > coalesce(l.checkpoint, 0)
				AND NOT EXISTS (SELECT FROM tidemark.outbox o WHERE o.consumer_group = $1 AND o.campaign_id = $2 OFFSET 0)
			ON CONFLICT DO NOTHING
			RETURNING consumer_group, campaign_id
		)
		INSERT INTO tidemark.failure_log (act, consumer_group, campaign_id, seq, actor, reason)
		SELECT 'repaired', f.consumer_group, f.campaign_id, $3 + 1, $4, nullif($5, '') FROM filed f
		RETURNING tidemark.wake()`

	// queryGroupProjections reads the registry. queryUnregister deletes the group and logs it. The
	// last four delete the group's rows, up to $2 at a time, by the primary key.
	queryGroupProjections = `SELECT count(*), coalesce(min(p.name), '') FROM tidemark.projections p
		WHERE p.consumer_group = $1`
	queryUnregister = `WITH gone AS (
			DELETE FROM tidemark.consumer_groups g WHERE g.name = $1
				AND NOT EXISTS (SELECT FROM tidemark.projections p WHERE p.consumer_group = $1) RETURNING g.name
		)
		INSERT INTO tidemark.failure_log (act, consumer_group, actor, reason) SELECT 'removed', name, $2, nullif($3, '')
			FROM gone`
	queryDropItems = `DELETE FROM tidemark.outbox o WHERE o.ctid = ANY (ARRAY(SELECT i.ctid FROM tidemark.outbox i
		WHERE i.consumer_group = $1 LIMIT $2))`
	queryDropLeases = `DELETE FROM tidemark.leases l WHERE l.ctid = ANY (ARRAY(SELECT i.ctid FROM tidemark.leases i
		WHERE i.consumer_group = $1 LIMIT $2 FOR UPDATE))`
	queryDropCrashes = `DELETE FROM tidemark.crashes c WHERE c.ctid = ANY (ARRAY(SELECT i.ctid FROM tidemark.crashes i
		WHERE i.consumer_group = $1 LIMIT $2))`
	queryDropPauses = `DELETE FROM tidemark.pauses p WHERE p.ctid = ANY (ARRAY(SELECT i.ctid FROM tidemark.pauses i
		WHERE i.consumer_group = $1 LIMIT $2))`

	// queryComplete deletes one range of the primary key per campaign. See migrations/functions/outbox.sql.
	queryComplete = `SELECT tidemark.complete($1, $2, $3, $4)`
)

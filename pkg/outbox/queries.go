package outbox

const (
	// queryRegister writes one row of a table that appends read; it waits for nobody.
	queryRegister = `INSERT INTO tidemark.consumer_groups (name) VALUES ($1) ON CONFLICT DO NOTHING`

	// queryState probes the primary key.
	queryState = `SELECT state FROM tidemark.consumer_groups WHERE name = $1`

	// queryNextPosition burns a position: appends that began before it hold the writer floor below it.
	queryNextPosition = `SELECT nextval('tidemark.journal_position')`

	// queryFile gives up to $3 campaigns after $2 one work item each, for their last event: a worker reads on from its checkpoint, not from the item. It steps
	// from campaign to campaign along the journal's primary key. It answers the last campaign it came to.
	queryFile = `WITH RECURSIVE walk AS (
			SELECT $2::text COLLATE "C" AS campaign_id, 0 AS steps
			UNION ALL
			SELECT n.campaign_id, w.steps + 1
			FROM walk w CROSS JOIN LATERAL (
				SELECT j.campaign_id FROM tidemark.journal j WHERE j.campaign_id > w.campaign_id ORDER BY j.campaign_id LIMIT 1
			) n
			WHERE w.steps < $3
		), filed AS (
			INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, event_type, enqueued_at)
			SELECT $1, w.campaign_id, h.seq, h.event_type, h.recorded_at
			FROM walk w CROSS JOIN LATERAL (
				SELECT j.seq, j.event_type, j.recorded_at FROM tidemark.journal j WHERE j.campaign_id = w.campaign_id ORDER BY j.seq DESC LIMIT 1
			) h
			WHERE w.steps > 0
			ON CONFLICT DO NOTHING
		)
		SELECT max(campaign_id), count(*) FILTER (WHERE steps > 0) FROM walk`

	// queryReady ends the filing.
	queryReady = `UPDATE tidemark.consumer_groups SET state = 'ready' WHERE name = $1`

	// queryComplete deletes by one range of the primary key for each campaign. See migrations/00003_leases.sql.
	queryComplete = `SELECT tidemark.complete($1, $2, $3)`
)

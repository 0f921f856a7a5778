package journal

const (
	// queryAppendIf takes the advisory locks of the events and of the condition in one order, then
	// those of the campaigns, then checks and appends. See migrations/00008_conditions.sql.
	queryAppendIf = `SELECT campaign_id, seq, "position", event_id, duplicate
		FROM tidemark.append_if($1::jsonb, $2::jsonb)`

	// queryAppendIfKeeping is queryAppendIf which answers what stands in the way, as a row without an
	// event id, and so keeps its locks.
	queryAppendIfKeeping = `SELECT campaign_id, seq, "position", event_id, duplicate
		FROM tidemark.append_if($1::jsonb, $2::jsonb, true)`

	// queryCommit begins another transaction, so that the caller can end the one it opened.
	queryCommit = `COMMIT AND CHAIN`

	// queryRead is queryMatches up to the writer floor, which it reads in a statement before.
	queryRead = `SELECT ` + eventColumns + ` FROM tidemark.read($1::jsonb, $2, $3)`

	// queryMatches reads ranges of the index on tags, then one event by position for each row, whose
	// order leaves the planner no other index. It takes no lock.
	queryMatches = `SELECT ` + eventColumns + ` FROM (
			SELECT j.* FROM tidemark.query_matches($1::jsonb, $2, $3, $4) m
			CROSS JOIN LATERAL (SELECT * FROM tidemark.journal j WHERE j."position" BETWEEN m."position" AND m."position"
				ORDER BY j."position" LIMIT 1) j
		) e ORDER BY "position"`
)

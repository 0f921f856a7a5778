package marks

// queryStats reads the planner's estimate and the first entry of the index on expires_at.
const queryStats = `SELECT greatest(c.reltuples, 0)::bigint,
	(SELECT i.expires_at FROM tidemark.inbox i ORDER BY i.expires_at LIMIT 1), now()
	FROM pg_class c WHERE c.oid = 'tidemark.inbox'::regclass`

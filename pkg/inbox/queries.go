package inbox

const (
	// queryMark writes one row by its primary key. It waits only for another transaction that marks
	// the same event for the same consumer.
	queryMark = `INSERT INTO tidemark.inbox (consumer, campaign_id, event_id, expires_at)
		VALUES ($1, $2, $3, clock_timestamp() + $4 * interval '1 microsecond')
		ON CONFLICT (consumer, event_id, campaign_id) DO UPDATE SET expires_at = excluded.expires_at
			WHERE inbox.expires_at <= clock_timestamp()
		RETURNING true`

	// queryPrune walks the index on expires_at from its oldest entry and stops at the limit. It
	// skips rows that are being marked again.
	queryPrune = `DELETE FROM tidemark.inbox WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM tidemark.inbox WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT $1
				FOR UPDATE SKIP LOCKED))`
)

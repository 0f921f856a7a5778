package copies

const (
	// queryFaults takes no lock. It reads the last row of some indexes, and the last pages of one table.
	queryFaults = `SELECT object, fault FROM tidemark.copy_faults(false)`

	// queryRepair reads tidemark.event_tags whole. It takes no lock that appends wait for.
	queryRepair = `SELECT object, fault FROM tidemark.repair_copy()`

	// queryLate reads $3 events backwards by the index on position. An append takes its time just before its
	// position, so an event is late only if it was appended a second later than one above it. $2 is the
	// earliest time above $1.
	queryLate = `SELECT e.position, e.campaign_id, e.seq, e.event_id, e.event_type, e.recorded_at,
			coalesce(e.before, e.recorded_at), coalesce(e.recorded_at > e.before + interval '1 s', false),
			least(e.before, e.recorded_at)
		FROM (
			SELECT j.*, least(CASE WHEN $1 > 0 THEN $2::timestamptz END, min(j.recorded_at) OVER (
				ORDER BY j.position DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS before
			FROM (SELECT j.position, j.campaign_id, j.seq, j.event_id, j.event_type, j.recorded_at FROM tidemark.journal j
				WHERE $1 = 0 OR j.position < $1 ORDER BY j.position DESC LIMIT $3) j
		) e ORDER BY e.position DESC`
)

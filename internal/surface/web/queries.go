package web

// queryMarks reads the end of three primary keys and a sequence, and two small tables with a row a
// worker or a pair of topic and publisher.
const queryMarks = `SELECT
		(SELECT coalesce(max(id), 0) FROM tidemark.failure_log), (SELECT coalesce(max(id), 0) FROM tidemark.operator_log),
		(SELECT coalesce(max(extract(epoch FROM updated_at) * 1000)::bigint, 0)
			FROM (SELECT updated_at FROM tidemark.operations ORDER BY id DESC LIMIT 50) o),
		(SELECT last_value FROM tidemark.journal_position),
		(SELECT coalesce(sum(events_applied), 0)::bigint FROM tidemark.workers),
			(SELECT coalesce(sum(published_count), 0)::bigint FROM tidemark.readers)`

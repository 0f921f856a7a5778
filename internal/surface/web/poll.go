package web

import (
	"context"
	"encoding/json"
)

// queryMarks reads how far each thing has come: the ends of three primary keys, a sequence, and
// tables of a row a worker or a pair.
const queryMarks = `SELECT
		(SELECT coalesce(max(id), 0) FROM tidemark.failure_log), (SELECT coalesce(max(id), 0) FROM tidemark.operator_log),
		(SELECT coalesce(max(extract(epoch FROM updated_at) * 1000)::bigint, 0)
			FROM (SELECT updated_at FROM tidemark.operations ORDER BY id DESC LIMIT 50) o),
		(SELECT last_value FROM tidemark.journal_position),
		(SELECT coalesce(sum(events_applied), 0)::bigint FROM tidemark.workers),
			(SELECT coalesce(sum(published_count), 0)::bigint FROM tidemark.publications)`

// marks change when something has happened that pages may show.
type marks struct {
	Failures   int64 `json:"failures"`   // grows with each attempt that fails and each act on pairs
	Acts       int64 `json:"acts"`       // grows with each act of an operator
	Operations int64 `json:"operations"` // grows while one goes on
	Position   int64 `json:"position"`   // grows with appends
	Applied    int64 `json:"applied"`    // events, by the workers there are
	Published  int64 `json:"published"`  // events
}

// poll reads what event streams tell: one event, "marks".
func (s *Server) poll(ctx context.Context) ([]event, error) {
	var m marks
	if err := s.cfg.Pool.QueryRow(ctx, queryMarks).Scan(&m.Failures, &m.Acts, &m.Operations, &m.Position, &m.Applied,
		&m.Published); err != nil {
		return nil, err
	}
	data, err := json.Marshal(m)
	return []event{{"marks", data}}, err
}

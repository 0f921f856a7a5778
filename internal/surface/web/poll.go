package web

import "context"

// marks change when something has happened that pages may show.
type marks struct {
	Failures   int64 `json:"failures"`   // grows with each attempt that fails and each act on pairs
	Acts       int64 `json:"acts"`       // grows with each act of an operator
	Operations int64 `json:"operations"` // grows while one goes on
	Position   int64 `json:"position"`   // grows with appends
	Applied    int64 `json:"applied"`    // events, by the workers there are
	Published  int64 `json:"published"`  // events
}

// poll reads what event streams tell.
func (s *Server) poll(ctx context.Context) (m marks, err error) {
	err = s.cfg.Pool.QueryRow(ctx, queryMarks).Scan(&m.Failures, &m.Acts, &m.Operations, &m.Position, &m.Applied,
		&m.Published)
	return m, err
}

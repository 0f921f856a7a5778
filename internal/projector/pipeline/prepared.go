package pipeline

import (
	"slices"

	"github.com/jackc/pgx/v5"
)

// preparedKey is the place in a connection's custom data for the texts of projections' statements that
// pgx is known to have prepared on it.
const preparedKey = "tidemark prepared"

// Forget forgets which statements are prepared on a connection.
func Forget(conn *pgx.Conn) { delete(conn.PgConn().CustomData(), preparedKey) }

// firstUnprepared returns the end of the batch that starts at from: the first statement of a projection
// that follows a change of the search_path and may not be prepared yet.
func (p *Pipeline) firstUnprepared(
	queries []*pgx.QueuedQuery, origins []Origin, paths []*pgx.QueuedQuery, from int,
) int {
	if len(paths) == 0 || p.Mode == pgx.QueryExecModeExec || p.Mode == pgx.QueryExecModeSimpleProtocol {
		return len(queries) // those modes parse statements one after the other
	}
	known, _ := p.Conn.PgConn().CustomData()[preparedKey].(map[string]bool)
	moved := false
	for i := from; i < len(queries); i++ {
		q := queries[i]
		switch {
		case slices.Contains(paths, q):
			moved = true
		case i >= len(origins) || origins[i].Projection == "" || known[q.SQL]:
		case moved:
			return i
		case p.Mode != pgx.QueryExecModeDescribeExec: // which describes them each time
			known = p.note(known, q.SQL)
		}
	}
	return len(queries)
}

// note notes that a statement is being prepared. It starts over long before pgx drops statements.
func (p *Pipeline) note(known map[string]bool, sql string) map[string]bool {
	if known == nil {
		known = map[string]bool{}
		p.Conn.PgConn().CustomData()[preparedKey] = known
	}
	if len(known) >= mostKnown {
		clear(known)
	}
	known[sql] = true
	return known
}

// mostKnown is a quarter of pgx's default capacity for prepared statements.
const mostKnown = 128

package kind

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Group is projector.Group.
type Group struct {
	Events []event.Event

	projection string
	comment    string // appended to its statements
	pipeline   *pipeline.Pipeline
	loaded     any       // the state that a Loader keeps from Load to Apply
	refuse     Refuse    // takes events that fail one by one; nil: the first fails the group
	reacting   *Reacting // nil: its process folds and does not react
	reactions  reactions
	ended      atomic.Bool // the projector no longer waits for the projection
}

// ErrAbandoned is returned by [Group.Tx] after the projection's timeout. Further statements have no effect.
var ErrAbandoned = errors.New("the projection took too long, its transaction has ended")

// NewGroup returns a group whose statements go through line.
func NewGroup(events []event.Event, projection, comment string, line *pipeline.Pipeline) *Group {
	return &Group{Events: events, projection: projection, comment: comment, pipeline: line}
}

// Refuse takes event i of a group, which a projection could not apply. It reports whether the
// projection goes on with the later events of the same key, or false if these wait.
type Refuse func(i int, cause error) (goesOn bool)

// Isolate lets projections that know their keys apply the rest of a group in which an event fails.
func Isolate(g *Group, refuse Refuse) { g.refuse = refuse }

// LineOf returns the pipeline of a group's statements.
func LineOf(g *Group) *pipeline.Pipeline { return g.pipeline }

// EndGroup stops all further effects of a group, even if its projection still runs.
func EndGroup(g *Group) { g.ended.Store(true) }

// GroupEnded reports whether the group was ended.
func GroupEnded(g *Group) bool { return g.ended.Load() }

// At assigns the statements queued from now on to e, so an error names the event that caused it.
// [Handlers] and SQL files call it themselves.
func (g *Group) At(e event.Event) { g.at(&e) }

func (g *Group) at(e *event.Event) {
	if g.ended.Load() {
		return
	}
	g.pipeline.At = pipeline.Origin{Projection: g.projection, CampaignID: e.CampaignID, Seq: e.Seq, EventType: e.Type}
}

// Queue adds a statement to the group's pipeline. Queued statements run in order in one round trip;
// an error fails the group. Read the result through the returned query's Exec, Query or QueryRow.
func (g *Group) Queue(sql string, args ...any) *pgx.QueuedQuery {
	if g.ended.Load() {
		return &pgx.QueuedQuery{SQL: sql}
	}
	return g.pipeline.Queue(sql+g.comment, args...)
}

// Tx runs the queued statements and returns the transaction, for statements whose results decide
// the next step. Each costs a round trip.
func (g *Group) Tx(ctx context.Context) (Tx, error) {
	if g.ended.Load() {
		return Tx{}, ErrAbandoned
	}
	if g.pipeline.Collects {
		g.pipeline.Refused = true
		return Tx{}, ErrIntricate
	}
	if err := g.pipeline.Flush(ctx); err != nil {
		return Tx{}, err
	}
	return Tx{conn: g.pipeline.Conn, comment: g.comment}, nil
}

// Tx is projector.Tx.
type Tx struct {
	conn    *pgx.Conn
	comment string // appended to its statements
}

// Exec runs a statement.
func (t Tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.conn.Exec(ctx, sql+t.comment, args...)
}

// Query runs a statement and returns its rows, which must be closed before the next call.
func (t Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.conn.Query(ctx, sql+t.comment, args...)
}

// QueryRow runs a statement that returns at most one row.
func (t Tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.conn.QueryRow(ctx, sql+t.comment, args...)
}

// SendBatch runs several statements in one round trip.
func (t Tx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return t.conn.SendBatch(ctx, b)
}

// CopyFrom writes many rows by COPY.
func (t Tx) CopyFrom(
	ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource,
) (int64, error) {
	return t.conn.CopyFrom(ctx, table, columns, src)
}

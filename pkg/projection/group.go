package projection

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/groupstate"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Group holds the events that a projection applies in one transaction, and writes their effects. It
// is valid only during the call it is passed to, and for one goroutine. After the projection's
// timeout [Group.Tx] returns an error, and further calls have no effect.
type Group struct {
	Events []event.Event

	state     groupstate.State
	loaded    any // the state that a Loader keeps from Load to Apply
	reactions reactions
}

func init() { //nolint:gochecknoinits // package groupstate says why
	groupstate.Of = func(group any) *groupstate.State { return &group.(*Group).state }
	groupstate.Engine = engineOf
	groupstate.Keys = func(p, spec any) (func(event.Event) ([]string, error), bool) {
		_, takes := p.(interface{ takesKeys() })
		return spec.(*Spec).keys, takes
	}
}

// ErrAbandoned is returned by [Group.Tx] after the projection's timeout. Further statements have no effect.
var ErrAbandoned = errors.New("the projection took too long, its transaction has ended")

// At assigns the statements queued from now on to e, so an error names the event that caused it.
// [Handlers] and SQL files call it themselves.
func (g *Group) At(e event.Event) { g.at(&e) }

func (g *Group) at(e *event.Event) { g.about(e.CampaignID, e.Seq, e.Type) }

func (g *Group) about(campaignID string, seq int64, eventType string) {
	if !g.state.Ended.Load() {
		g.state.Line.About(g.state.Projection, campaignID, seq, eventType)
	}
}

// Queue adds a statement to the group's pipeline. Queued statements run in order in one round trip;
// an error fails the group. Read the result through the returned query's Exec, Query or QueryRow.
func (g *Group) Queue(sql string, args ...any) *pgx.QueuedQuery {
	if g.state.Ended.Load() {
		return &pgx.QueuedQuery{SQL: sql}
	}
	return g.state.Line.Queue(sql+g.state.Comment, args...)
}

// Tx runs the queued statements and returns the transaction, for statements whose results decide
// the next step. Each costs a round trip.
func (g *Group) Tx(ctx context.Context) (Tx, error) {
	if g.state.Ended.Load() {
		return Tx{}, ErrAbandoned
	}
	conn, err := g.state.Line.Direct(ctx)
	if err != nil {
		return Tx{}, err
	}
	return Tx{conn: conn, comment: g.state.Comment}, nil
}

// Tx is a projection's access to the group's transaction. Return an error to roll it back, nil to let it
// commit.
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

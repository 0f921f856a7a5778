package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Origin is the projection and the event that a queued statement is for.
type Origin struct {
	Projection string
	CampaignID string
	Seq        int64
	EventType  string
}

// Pipeline collects statements for one connection and runs them in one round trip.
type Pipeline struct {
	Conn    *pgx.Conn
	Batch   *pgx.Batch
	Origins []Origin
	At      Origin // of the statements queued next
	paths   []*pgx.QueuedQuery

	Timeout    time.Duration // the shortest of the projections that have queued statements; 0: none
	Disconnect func()        // ends everything on the connection, from any goroutine; nil: the connection is not ours
	Abandoned  bool          // a projection still uses it: do not touch it

	Collects bool // statements are queued, but must not run yet
	Refused  bool // a handler tried to run some

	Streams bool                 // projections' statements may run as a stream
	Mode    pgx.QueryExecMode    // how the connection sends statements
	Checks  bool                 // arguments are encoded once before anything is sent
	Notice  pgconn.NoticeHandler // of the connection; nil: none
}

// NewPipeline returns an empty pipeline for a connection.
func NewPipeline(conn *pgx.Conn) *Pipeline { return &Pipeline{Conn: conn, Batch: &pgx.Batch{}} }

// ErrIntricate means that a projection's statements cannot be cut into parts: it reads results,
// queues for several events at once, uses too many statements, or learns their outcome only at the
// end.
var ErrIntricate = errors.New("the projection's statements cannot be cut into parts")

// About has the statements queued from now on belong to a projection's event.
func (p *Pipeline) About(projection, campaignID string, seq int64, eventType string) {
	p.At = Origin{Projection: projection, CampaignID: campaignID, Seq: seq, EventType: eventType}
}

// Direct runs what is queued and returns the connection.
func (p *Pipeline) Direct(ctx context.Context) (*pgx.Conn, error) {
	if p.Collects {
		p.Refused = true
		return nil, ErrIntricate
	}
	if err := p.Flush(ctx); err != nil {
		return nil, err
	}
	return p.Conn, nil
}

// Queue adds a statement for the origin At.
func (p *Pipeline) Queue(sql string, args ...any) *pgx.QueuedQuery {
	p.Sync()
	return p.Batch.Queue(sql, args...)
}

// QueuePath queues a statement that sets the search_path.
func (p *Pipeline) QueuePath(sql string, args ...any) *pgx.QueuedQuery {
	q := p.Queue(sql, args...)
	p.paths = append(p.paths, q)
	return q
}

// Sync gives the origin At to statements that were queued on Batch directly.
func (p *Pipeline) Sync() {
	for len(p.Origins) <= p.Batch.Len() {
		p.Origins = append(p.Origins, p.At)
	}
}

// Flush runs what is queued, in one round trip. It returns the first error, as a
// [*projection.ApplyError] if the statement belongs to a projection.
//
// pgx prepares a batch's new statements before it runs the first, so a projection's statement would not
// find its tables if the search_path is set in the same batch. Such a statement begins a batch of its
// own, the first time on its connection.
func (p *Pipeline) Flush(ctx context.Context) error {
	queries, origins, paths := p.Batch.QueuedQueries, p.Origins, p.paths
	p.Batch, p.Origins, p.paths = &pgx.Batch{}, origins[:0], nil
	for from := 0; from < len(queries); {
		until := p.firstUnprepared(queries, origins, paths, from)
		rest := origins[min(from, len(origins)):min(until, len(origins))]
		if err := p.send(ctx, &pgx.Batch{QueuedQueries: queries[from:until]}, rest); err != nil {
			Forget(p.Conn)
			return err
		}
		from = until
	}
	return nil
}

func (p *Pipeline) send(ctx context.Context, batch *pgx.Batch, origins []Origin) error {
	if p.Checks {
		if i, err := p.encode(ctx, batch.QueuedQueries, origins); err != nil {
			return origins[i].Wrap(err)
		}
	}
	start := time.Now()
	results := p.Conn.SendBatch(ctx, batch)
	for i, query := range batch.QueuedQueries {
		var err error
		if query.Fn != nil {
			err = query.Fn(results)
		} else {
			_, err = results.Exec()
		}
		if err != nil {
			_ = results.Close() // returns the same error
			if unsent, ok := errors.AsType[pgx.ErrPreprocessingBatch](err); ok {
				// Blame the first statement of this text.
				i = max(0, slices.IndexFunc(batch.QueuedQueries, func(q *pgx.QueuedQuery) bool { return q.SQL == unsent.SQL() }))
			}
			if i < len(origins) {
				return origins[i].Wrap(failure.Cancelled(err, origins[i].Projection, p.Timeout, start))
			}
			return err
		}
	}
	return results.Close()
}

// encode encodes the arguments of projections' statements ahead of sending, and returns the first
// that fails: pgx closes the connection if one cannot be encoded.
func (p *Pipeline) encode(ctx context.Context, queries []*pgx.QueuedQuery, origins []Origin) (failed int, err error) {
	if p.Mode == pgx.QueryExecModeSimpleProtocol {
		return 0, nil // there are no types to encode for, and pgx leaves the connection open
	}
	var builder pgx.ExtendedQueryBuilder
	described := map[string]*pgconn.StatementDescription{}
	for i, q := range queries[:min(len(queries), len(origins))] {
		if origins[i].Projection == "" {
			continue
		}
		statement := described[q.SQL]
		if statement == nil {
			if statement, err = p.describe(ctx, q.SQL); err != nil {
				return i, err
			}
			described[q.SQL] = statement
		}
		if err := builder.Build(p.Conn.TypeMap(), statement, q.Arguments); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// describe returns the types of a statement's parameters; nil if the arguments' types decide. It
// costs a round trip, but where statements stay prepared, only for the first of its text.
func (p *Pipeline) describe(ctx context.Context, sql string) (*pgconn.StatementDescription, error) {
	switch p.Mode {
	case pgx.QueryExecModeCacheStatement:
		return p.Conn.Prepare(ctx, sql, sql)
	case pgx.QueryExecModeExec:
		return nil, nil
	default:
		return p.Conn.Prepare(ctx, "", sql)
	}
}

// NeverSent reports whether a batch failed before any of it was sent, because an argument cannot be
// encoded. pgx has no type for that, and closes the connection all the same.
func NeverSent(err error) bool {
	return strings.Contains(err.Error(), "error preprocessing batch (build)")
}

// Reset drops what is queued.
func (p *Pipeline) Reset() { p.Batch, p.Origins, p.At, p.paths = &pgx.Batch{}, nil, Origin{}, nil }

// Exec runs one statement that belongs to no projection, after what is queued.
func (p *Pipeline) Exec(ctx context.Context, sql string, args ...any) error {
	p.At = Origin{}
	p.Queue(sql, args...)
	return p.Flush(ctx)
}

// Wrap adds the event to an error, if the origin is a projection's.
func (o Origin) Wrap(err error) error {
	if o.Projection == "" || err == nil {
		return err
	}
	return &projection.ApplyError{
		Projection: o.Projection, CampaignID: o.CampaignID, Seq: o.Seq, EventType: o.EventType,
		Err: err,
	}
}

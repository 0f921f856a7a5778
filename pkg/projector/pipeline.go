package projector

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/failure"
)

// origin is what a queued statement is for.
type origin struct {
	projection string
	campaignID string
	seq        int64
	eventType  string
}

// pipeline collects statements for one connection and runs them in one round trip, or in three where there are very many.
type pipeline struct {
	conn    *pgx.Conn
	batch   *pgx.Batch
	origins []origin
	at      origin // of the statements queued next

	timeout    time.Duration // the shortest of the projections' whose statements are queued; 0: none
	disconnect func()        // ends whatever goes on on the connection, from any goroutine; nil: it is not ours to end
	abandoned  bool          // a projection still has it: it must not be touched any more

	collects bool // statements are to be queued and not yet run
	refused  bool // somebody wanted to run some

	streams bool                 // it may run very many statements as a stream
	mode    pgx.QueryExecMode    // in which the connection sends statements
	checks  bool                 // arguments are tried before anything is sent
	notice  pgconn.NoticeHandler // of the connection; nil: none
}

func newPipeline(conn *pgx.Conn) *pipeline { return &pipeline{conn: conn, batch: &pgx.Batch{}} }

func (p *pipeline) queue(sql string, args ...any) *pgx.QueuedQuery {
	p.sync()
	return p.batch.Queue(sql, args...)
}

// sync gives statements that were queued on the batch itself the origin of now.
func (p *pipeline) sync() {
	for len(p.origins) <= p.batch.Len() {
		p.origins = append(p.origins, p.at)
	}
}

// flush runs what is queued. It returns the first error, as an [*ApplyError] if the statement belongs to a projection.
func (p *pipeline) flush(ctx context.Context) error {
	batch, origins := p.batch, p.origins
	if batch.Len() == 0 {
		return nil
	}
	p.batch, p.origins = &pgx.Batch{}, origins[:0]
	if !p.streams {
		return p.send(ctx, batch, origins)
	}
	for _, r := range runs(batch.QueuedQueries, origins) {
		part := origins[min(r.from, len(origins)):min(r.to, len(origins))]
		if !r.stream {
			if err := p.send(ctx, &pgx.Batch{QueuedQueries: batch.QueuedQueries[r.from:r.to]}, part); err != nil {
				return err
			}
			continue
		}
		start := time.Now()
		if failed, err := p.stream(ctx, batch.QueuedQueries[r.from:r.to]); err != nil {
			at := part[min(failed, len(part)-1)]
			return at.wrap(failure.Cancelled(err, at.projection, p.timeout, start))
		}
	}
	return nil
}

// send runs a batch in one round trip.
func (p *pipeline) send(ctx context.Context, batch *pgx.Batch, origins []origin) error {
	if p.checks {
		if i, err := p.encode(ctx, batch.QueuedQueries, origins); err != nil {
			return origins[i].wrap(err)
		}
	}
	start := time.Now()
	results := p.conn.SendBatch(ctx, batch)
	for i, query := range batch.QueuedQueries {
		var err error
		if query.Fn != nil {
			err = query.Fn(results)
		} else {
			_, err = results.Exec()
		}
		if err != nil {
			_ = results.Close() // says the same
			if i < len(origins) {
				return origins[i].wrap(failure.Cancelled(err, origins[i].projection, p.timeout, start))
			}
			return err
		}
	}
	return results.Close()
}

// encode tries to encode the arguments of projections' statements, and answers the first that fails: pgx closes the connection over one that cannot be encoded.
func (p *pipeline) encode(ctx context.Context, queries []*pgx.QueuedQuery, origins []origin) (failed int, err error) {
	if p.mode == pgx.QueryExecModeSimpleProtocol {
		return 0, nil // there are no types to encode for, and pgx leaves the connection open
	}
	var builder pgx.ExtendedQueryBuilder
	described := map[string]*pgconn.StatementDescription{}
	for i, q := range queries[:min(len(queries), len(origins))] {
		if origins[i].projection == "" {
			continue
		}
		statement := described[q.SQL]
		if statement == nil {
			if statement, err = p.describe(ctx, q.SQL); err != nil {
				return i, err
			}
			described[q.SQL] = statement
		}
		if err := builder.Build(p.conn.TypeMap(), statement, q.Arguments); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// describe answers the types of a statement's parameters, nil where those of the arguments decide. It costs a round trip, where statements stay prepared only for the first of its text.
func (p *pipeline) describe(ctx context.Context, sql string) (*pgconn.StatementDescription, error) {
	switch p.mode {
	case pgx.QueryExecModeCacheStatement:
		return p.conn.Prepare(ctx, sql, sql)
	case pgx.QueryExecModeExec:
		return nil, nil
	default:
		return p.conn.Prepare(ctx, "", sql)
	}
}

// neverSent says whether a batch failed before any of it was sent: an argument of it cannot be encoded. pgx has no type for that, and closes the connection all the same.
func neverSent(err error) bool {
	return strings.Contains(err.Error(), "error preprocessing batch (build)")
}

// reset forgets what is queued.
func (p *pipeline) reset() { p.batch, p.origins, p.at = &pgx.Batch{}, nil, origin{} }

// exec runs one statement that belongs to no projection, after what is queued.
func (p *pipeline) exec(ctx context.Context, sql string, args ...any) error {
	p.at = origin{}
	p.queue(sql, args...)
	return p.flush(ctx)
}

func (o origin) wrap(err error) error {
	if o.projection == "" || err == nil {
		return err
	}
	return &ApplyError{Projection: o.projection, CampaignID: o.campaignID, Seq: o.seq, EventType: o.eventType, Err: err}
}

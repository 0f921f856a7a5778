package projector

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// part is what one savepoint holds: all that a projection has queued for some units. If it fails the others stay.
type part struct {
	k       *known        // nil: the statements are no projection's
	timeout time.Duration // of k
	tasks   []*task
	queries []*pgx.QueuedQuery
	origins []origin
	finer   int // parts to cut into what is left of it should it fail; 0: none

	failed int   // the statement that failed
	cause  error // nil: none
}

// fail notes the statement that failed.
func (p *part) fail(i int, cause error) { p.failed, p.cause = i, cause }

// streamParts runs parts in one round trip, and notes in each whether it failed. Ahead of each it goes
// back to the savepoint that the last one to succeed has left: after a success that changes nothing,
// after a failure it undoes it, so nobody has to wait and see which of them it was. An error concerns
// all of them.
func (p *pipeline) streamParts(ctx context.Context, parts []*part) error {
	if err := p.exec(ctx, querySavepointPart); err != nil {
		return err
	}
	statements, err := p.prepareParts(ctx, parts)
	if err != nil {
		return err
	}
	sent := make([]*part, 0, len(parts))
	for _, one := range parts {
		if one.cause == nil {
			sent = append(sent, one)
		}
	}
	refused := make([]*refusal, len(sent))
	again, keep := []*pgx.QueuedQuery{{SQL: queryRollbackPart}, {SQL: queryPatience}}, []*pgx.QueuedQuery{{SQL: queryReleasePart}, {SQL: querySavepointPart}}
	err = p.duplex(ctx, func(w *writer) error {
		for i, one := range sent {
			if _, err := w.run(again, statements); err != nil {
				return err
			}
			if refused[i], err = w.run(one.queries, statements); err != nil {
				return err
			}
			if refused[i] == nil {
				if _, err := w.run(keep, statements); err != nil {
					return err
				}
			}
			if err := w.sync(); err != nil {
				return err
			}
		}
		return w.frontend.Flush()
	}, func(frontend *pgproto3.Frontend) error {
		for _, one := range sent {
			done, failure, err := p.receive(frontend)
			if err != nil {
				return err
			}
			if failure != nil {
				if done < len(again) || done-len(again) >= len(one.queries) {
					return fmt.Errorf("set a savepoint: %w", failure)
				}
				one.fail(done-len(again), failure)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, r := range refused {
		if r != nil && sent[i].cause == nil { // the server had no fault to find with those before it
			sent[i].fail(r.index, r.err)
		}
	}
	p.queue(queryRollbackPart)
	p.queue(queryReleasePart)
	return p.flush(ctx)
}

// prepareParts prepares what the connection has not prepared yet. A part has failed at the first
// statement that cannot be.
func (p *pipeline) prepareParts(ctx context.Context, parts []*part) (map[string]*pgconn.StatementDescription, error) {
	statements, refused := map[string]*pgconn.StatementDescription{}, map[string]error{}
	for _, sql := range []string{querySavepointPart, queryRollbackPart, queryReleasePart, queryPatience} {
		statement, err := p.conn.Prepare(ctx, sql, sql)
		if err != nil {
			return nil, err
		}
		statements[sql] = statement
	}
	for _, one := range parts {
		last := ""
		for i, q := range one.queries {
			if q.SQL == last {
				continue
			}
			last = q.SQL
			if statements[q.SQL] == nil && refused[q.SQL] == nil {
				statement, err := p.conn.Prepare(ctx, q.SQL, q.SQL)
				switch {
				case err == nil:
					statements[q.SQL] = statement
				case p.conn.IsClosed() || ctx.Err() != nil:
					return nil, err
				default:
					refused[q.SQL] = err
					if err := p.exec(ctx, queryRollbackPart); err != nil {
						return nil, err
					}
				}
			}
			if err := refused[q.SQL]; err != nil {
				one.fail(i, err)
				break
			}
		}
	}
	return statements, nil
}

package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// QueueLookAhead queues the checks that are left to COMMIT.
func (p *Pipeline) QueueLookAhead() {
	for _, sql := range []string{querySavepointCheck, queryCheckConstraints, queryUndoCheck} {
		p.Queue(sql)
	}
}

// Savepoint is the statements of one savepoint, and their outcome.
type Savepoint struct {
	Queries []*pgx.QueuedQuery
	Failed  int           // index of the statement that failed
	Cause   error         // nil: none has failed
	Took    time.Duration // about, if it was sent by itself
}

func (s *Savepoint) fail(i int, cause error) { s.Failed, s.Cause = i, cause }

// StreamParts runs parts in one round trip, and records in each whether it failed. An error
// concerns all of them. A batch of one UPSERT per event spends a fifth of its time on descriptions
// and on waiting to read. Ahead of each part it rolls back to the last savepoint. That undoes a
// failure and changes nothing after a success, so no outcome is waited for. If inOrder is set, no
// part runs after one that fails, and all have the same limit for waits.
func (p *Pipeline) StreamParts(ctx context.Context, parts []*Savepoint, inOrder bool) error {
	if inOrder {
		p.Queue(QueryPatience)
	}
	if err := p.Exec(ctx, QuerySavepointPart); err != nil {
		return err
	}
	statements, err := p.prepareParts(ctx, parts)
	if err != nil {
		return err
	}
	sent := make([]*Savepoint, 0, len(parts))
	for _, one := range parts {
		if one.Cause == nil {
			sent = append(sent, one)
		} else if inOrder {
			break
		}
	}
	together := 1 // parts up to a Sync: after a failure the server skips to it
	if inOrder {
		together = max(1, len(sent))
	}
	refused := make([]*refusal, len(sent))
	again, keep, end := []*pgx.QueuedQuery{{SQL: QueryRollbackPart}, {SQL: QueryPatience}},
		[]*pgx.QueuedQuery{{SQL: QueryReleasePart}, {SQL: QuerySavepointPart}},
		[]*pgx.QueuedQuery{{SQL: QueryRollbackPart}, {SQL: QueryReleasePart}}
	if inOrder {
		again = nil
	}
	err = p.duplex(ctx, func(w *writer) error {
		for i, one := range sent {
			if _, err := w.run(again, statements); err != nil {
				return err
			}
			if refused[i], err = w.run(one.Queries, statements); err != nil {
				return err
			}
			if refused[i] == nil {
				if _, err := w.run(keep, statements); err != nil {
					return err
				}
			}
			if (i+1)%together == 0 || refused[i] != nil {
				if err := w.sync(); err != nil {
					return err
				}
			}
			if inOrder && refused[i] != nil {
				break
			}
		}
		if _, err := w.run(end, statements); err != nil {
			return err
		}
		return errors.Join(w.sync(), w.frontend.Flush())
	}, func(frontend *pgproto3.Frontend) error {
		for round := range slices.Chunk(sent, together) {
			start := time.Now()
			done, failure, err := p.receive(frontend)
			if err != nil {
				return err
			}
			for _, one := range round {
				one.Took = time.Since(start)
				at, all := done-len(again), len(again)+len(one.Queries)+len(keep)
				if failure != nil && done < all {
					if at < 0 || at >= len(one.Queries) {
						return fmt.Errorf("set a savepoint: %w", failure)
					}
					one.fail(at, failure)
					break
				}
				done -= all
			}
		}
		_, failure, err := p.receive(frontend)
		if failure != nil {
			err = fmt.Errorf("release the savepoint: %w", failure)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, r := range refused {
		if r != nil && sent[i].Cause == nil { // the server found no fault in those before it
			sent[i].fail(r.index, r.err)
		}
	}
	return nil
}

// prepareParts prepares new statements. A part fails at its first statement that cannot be prepared.
func (p *Pipeline) prepareParts(
	ctx context.Context, parts []*Savepoint,
) (map[string]*pgconn.StatementDescription, error) {
	statements, refused := map[string]*pgconn.StatementDescription{}, map[string]error{}
	for _, sql := range []string{QuerySavepointPart, QueryRollbackPart, QueryReleasePart, QueryPatience} {
		statement, err := p.Conn.Prepare(ctx, sql, sql)
		if err != nil {
			return nil, err
		}
		statements[sql] = statement
	}
	for _, one := range parts {
		last := ""
		for i, q := range one.Queries {
			if q.SQL == last {
				continue
			}
			last = q.SQL
			if statements[q.SQL] == nil && refused[q.SQL] == nil {
				statement, err := p.Conn.Prepare(ctx, q.SQL, q.SQL)
				switch {
				case err == nil:
					statements[q.SQL] = statement
				case p.Conn.IsClosed() || ctx.Err() != nil:
					return nil, err
				default:
					refused[q.SQL] = err
					if err := p.Exec(ctx, QueryRollbackPart); err != nil {
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

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
	s := newPartStream(p, parts, statements, inOrder)
	if err := p.duplex(ctx, s.send, s.receive); err != nil {
		return err
	}
	for i, r := range s.refused {
		if r != nil && s.sent[i].Cause == nil { // the server found no fault in those before it
			s.sent[i].fail(r.index, r.err)
		}
	}
	return nil
}

// partStream sends parts and receives what became of them, at once.
type partStream struct {
	pipeline   *Pipeline
	statements map[string]*pgconn.StatementDescription
	sent       []*Savepoint
	refused    []*refusal // by part: a statement whose arguments cannot be encoded
	inOrder    bool
	together   int // parts up to a Sync: after a failure the server skips to it

	again, keep, end []*pgx.QueuedQuery // ahead of a part, behind it, and behind all
}

func newPartStream(
	p *Pipeline, parts []*Savepoint, statements map[string]*pgconn.StatementDescription, inOrder bool,
) *partStream {
	s := &partStream{
		pipeline: p, statements: statements, inOrder: inOrder, together: 1,
		again: []*pgx.QueuedQuery{{SQL: QueryRollbackPart}, {SQL: QueryPatience}},
		keep:  []*pgx.QueuedQuery{{SQL: QueryReleasePart}, {SQL: QuerySavepointPart}},
		end:   []*pgx.QueuedQuery{{SQL: QueryRollbackPart}, {SQL: QueryReleasePart}},
	}
	for _, one := range parts {
		if one.Cause == nil {
			s.sent = append(s.sent, one)
		} else if inOrder {
			break
		}
	}
	if inOrder {
		s.again, s.together = nil, max(1, len(s.sent))
	}
	s.refused = make([]*refusal, len(s.sent))
	return s
}

// send sends the parts, and the end of the savepoint.
func (s *partStream) send(w *writer) error {
	for i, one := range s.sent {
		if err := s.sendPart(w, i, one); err != nil {
			return err
		}
		if (i+1)%s.together == 0 || s.refused[i] != nil {
			if err := w.sync(); err != nil {
				return err
			}
		}
		if s.inOrder && s.refused[i] != nil {
			break
		}
	}
	if _, err := w.run(s.end, s.statements); err != nil {
		return err
	}
	return errors.Join(w.sync(), w.frontend.Flush())
}

func (s *partStream) sendPart(w *writer, i int, one *Savepoint) (err error) {
	if _, err = w.run(s.again, s.statements); err != nil {
		return err
	}
	if s.refused[i], err = w.run(one.Queries, s.statements); err != nil || s.refused[i] != nil {
		return err
	}
	_, err = w.run(s.keep, s.statements)
	return err
}

// receive receives the outcomes.
func (s *partStream) receive(frontend *pgproto3.Frontend) error {
	for round := range slices.Chunk(s.sent, s.together) {
		start := time.Now()
		done, failure, err := s.pipeline.receive(frontend)
		if err != nil {
			return err
		}
		for _, one := range round {
			one.Took = time.Since(start)
			at, all := done-len(s.again), len(s.again)+len(one.Queries)+len(s.keep)
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
	_, failure, err := s.pipeline.receive(frontend)
	if failure != nil {
		err = fmt.Errorf("release the savepoint: %w", failure)
	}
	return err
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

package apply

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/groupstate"
	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// session is a transaction's connection and its settings in force: search_path, limits on
// statements, and lock waits. It knows nothing of units.
type session struct {
	*pipeline.Pipeline
	base     *registry.Base
	Pool     *pgxpool.Conn
	path     string        // search_path in force
	limit    time.Duration // on statements, as the server set it at the beginning
	InForce  time.Duration // on statements, as last requested
	patient  bool          // the total time it waits for locks is bounded
	took     time.Duration // the last attempt at events of a projection
	blockers string        // who blocked its statements, when last looked up; "": unknown
	trying   bool          // it is rolled back, and moves no campaign that is behind
	reacting *groupstate.Reacting
}

// Blame wraps an error in a [failure.BrokenError] if the connection has broken.
func (s *session) Blame(err error) error {
	var late *failure.DeadlineError
	if err == nil || s.Abandoned || errors.As(err, &late) || !s.Conn.IsClosed() || !s.Checks && pipeline.NeverSent(err) {
		return err
	}
	return &failure.BrokenError{Err: err}
}

// Use queues the switch to a projection's set of tables.
func (s *session) Use(k *registry.Projection) {
	s.useSchema(k.Path)
}

func (s *session) useSchema(path string) {
	if s.path != path {
		s.path = path
		s.At = pipeline.Origin{}
		s.QueuePath(registry.QuerySearchPath, path)
	}
}

// Group returns a projection's group of events.
func (s *session) Group(k *registry.Projection, events kind.Events) *projection.Group {
	g := kind.NewGroup(events, k.Name, k.Comment, s.Pipeline)
	kind.React(g, s.reacting)
	return g
}

// QueueSettings queues the settings of a transaction.
func (s *session) QueueSettings() {
	// A handler may spend its timeout in Go, and some time more until it is abandoned.
	idle := max(s.base.Cfg.LeaseTTL, s.base.Longest+2*registry.Grace)
	s.QueuePath(querySettings, s.path, strconv.FormatInt(idle.Milliseconds(), 10), s.base.Longest.Milliseconds(),
		max(1, s.base.Longest.Milliseconds()/2)).
		QueryRow(func(row pgx.Row) error {
			var milliseconds float64
			err := row.Scan(nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, &milliseconds)
			s.limit = time.Duration(milliseconds) * time.Millisecond
			return err
		})
}

// LimitStatements queues a limit on statements, where it differs from the one in force.
func (s *session) LimitStatements(timeout time.Duration) {
	if s.Timeout == 0 || timeout == s.InForce { // the limits of the application's transaction stay as they are
		return
	}
	if s.Batch.Len() == 0 || timeout < s.Timeout {
		s.Timeout = timeout
	}
	s.InForce = timeout
	s.Queue(QueryStatementTimeout, strconv.FormatInt(min(timeout, s.limit).Milliseconds(), 10))
}

// queuePatience queues, ahead of a savepoint, how long the next statements may wait for locks.
func (s *session) queuePatience() {
	if s.trying { // it has its own limit
		return
	}
	if !s.patient {
		s.patient = true
		s.Queue(pipeline.QueryPatienceBegins)
	}
	s.Queue(pipeline.QueryPatience)
}

// watchLocks looks for the session that blocks this transaction, until stop is called. It needs
// another connection of the pool; without one, the blocker stays unknown.
func (s *session) watchLocks(ctx context.Context) (stop func()) {
	pid := s.Conn.PgConn().PID()
	watching, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	look := func() {
		defer close(done)
		for found := ""; found == "" && watching.Err() == nil; loops.Sleep(watching, lockLook) {
			conn, err := s.base.Cfg.Pool.Acquire(watching)
			if err != nil {
				return
			}
			// it takes a millisecond; cancelling it would cost the connection
			bounded, end := context.WithTimeout(context.WithoutCancel(ctx), registry.ReleaseTimeout)
			err = conn.QueryRow(bounded, registry.QueryBlockers, int32(pid)).Scan(&found)
			end()
			conn.Release()
			if err != nil {
				return
			}
			if found != "" {
				s.blockers = found
			}
		}
	}
	timer := time.AfterFunc(lockLook, look)
	return func() {
		cancel()
		if !timer.Stop() {
			<-done
		}
	}
}

// broken reports whether a failure costs the transaction: the connection is lost, the work has ended, or a
// statement of ours has met the infrastructure. Then no event is at fault.
func (s *session) broken(ctx context.Context, err error) bool {
	var lost *failure.BrokenError
	if s.Abandoned || s.Conn.IsClosed() || ctx.Err() != nil || errors.As(err, &lost) {
		return true
	}
	_, named := errors.AsType[*projection.ApplyError](err)
	return !named && failure.IsInfrastructure(err) && !failure.IsLockTimeout(err)
}

// lockLook is how long a statement runs before its blocker is looked for, and the interval from then on.
const lockLook = 100 * time.Millisecond

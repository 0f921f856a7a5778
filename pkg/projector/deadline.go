package projector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/pulse"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	// codeDeadline is what is kept of a [DeadlineError] as its code.
	codeDeadline = "deadline"

	// applyTimeout is the least that [Config].ApplyTimeout is by default.
	applyTimeout = 5 * time.Second

	// grace is how long a handler that has been told that its time is up may take to return, before it is abandoned.
	grace = time.Second

	stateCancelled = "57014"
)

// DeadlineError is the error of a projection that took longer than its [Policy].Timeout: its code, one of its statements, or a group that was too large for the time. It is
// a transient failure, so the pair is tried again until its attempts are used up.
type DeadlineError struct {
	Projection string
	Timeout    time.Duration
	Stack      string // of the handler that did not return even then; empty if it returned

	lost   bool // the connection: what else the transaction did is lost with it
	own    bool // the projection's: a shorter one that it has set itself
	events int  // of the group that was tried apart; 0: it was not tried apart
	at     verdict
}

func (e *DeadlineError) Error() string {
	if e.Stack != "" {
		return fmt.Sprintf("did not return within its timeout of %v, and was abandoned", e.Timeout)
	}
	if e.own {
		return "gave up one of its statements at a deadline of its own"
	}
	return fmt.Sprintf("was not done within its timeout of %v", e.Timeout)
}

// Unwrap makes it match [context.DeadlineExceeded].
func (e *DeadlineError) Unwrap() error { return context.DeadlineExceeded }

// FailureClass says that it may be quicker another time.
func (e *DeadlineError) FailureClass() Class { return ClassTransient }

// FailureCode is what is kept of it as a code.
func (e *DeadlineError) FailureCode() string { return codeDeadline }

// timeout is how long the projection may take for the events: the longest that any of them is allowed.
func (k *known) timeout(events []journal.Event) time.Duration {
	longest := k.onFailure.Timeout
	if len(k.onFailureOf) == 0 || len(events) == 0 {
		return longest
	}
	longest = 0
	for i := range events {
		longest = max(longest, k.policy(events[i].Type).Timeout)
	}
	return longest
}

// longestTimeout is that of all projections and event types. The server ends a transaction that is idle for longer, and cancels statements that run longer.
func longestTimeout(projections []*known) time.Duration {
	longest := time.Duration(0)
	for _, k := range projections {
		longest = max(longest, k.onFailure.Timeout)
		for _, policy := range k.onFailureOf {
			longest = max(longest, policy.Timeout)
		}
	}
	return longest
}

// supervise calls a projection's code with a context that ends at its deadline. Code that does not return even then, or when ctx ends, goes on in its goroutine without anybody: the
// connection is closed under it and its group is of no more use, so that it can do no harm, and the projector goes on. In a transaction that is not the projector's
// own there is no going on without it: it is waited for.
func (a *applier) supervise(ctx context.Context, k *known, g *Group, run func(context.Context) error) error {
	timeout, start := k.timeout(g.Events), time.Now()
	pulse.Of(ctx).Within(a.promises.step)
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	h := &handling{done: make(chan error, 1)}
	go h.run(func() error { return guarded(k, g, func() error { return run(bounded) }) }, a.metrics)
	select {
	case err := <-h.done:
		return late(bounded, k, g, err, timeout, start)
	case <-bounded.Done():
	}
	if g.pipeline.disconnect == nil {
		return late(bounded, k, g, <-h.done, timeout, start)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-h.done:
		return late(bounded, k, g, err, timeout, start)
	case <-timer.C:
	}
	if !h.state.CompareAndSwap(handlingRuns, handlingAbandoned) { // it has returned just now
		return late(bounded, k, g, <-h.done, timeout, start)
	}
	return a.abandon(ctx, k, g, h, timeout)
}

// late makes a [DeadlineError] of what the deadline has caused.
func late(bounded context.Context, k *known, g *Group, err error, timeout time.Duration, start time.Time) error {
	if errors.Is(bounded.Err(), context.DeadlineExceeded) && time.Since(start) >= timeout {
		closed := g.pipeline.conn != nil && g.pipeline.conn.IsClosed()
		if closed || errors.Is(err, context.DeadlineExceeded) {
			return wrapAs(err, k, &DeadlineError{Projection: k.name, Timeout: timeout, lost: closed})
		}
	}
	if bounded.Err() == nil && pgconn.Timeout(err) && errors.Is(err, context.DeadlineExceeded) && g.pipeline.conn != nil && g.pipeline.conn.IsClosed() {
		// pgx closes a connection whose request is given up. It was not the network that ended this one.
		return wrapAs(err, k, &DeadlineError{Projection: k.name, Timeout: timeout, lost: true, own: true})
	}
	return cancelled(err, k.name, timeout, start)
}

// cancelled makes a [DeadlineError] of a statement of a projection that the server cancelled after statement_timeout. One cancelled earlier was cancelled by somebody else:
// an operator, or a lower setting of the role; that is the infrastructure's.
func cancelled(err error, projection string, timeout time.Duration, start time.Time) error {
	var pgErr *pgconn.PgError
	if projection == "" || timeout == 0 || time.Since(start) < timeout || !errors.As(err, &pgErr) || pgErr.Code != stateCancelled {
		return err
	}
	return &DeadlineError{Projection: projection, Timeout: timeout}
}

// wrapAs puts a cause in the place of err's, under the event that err names.
func wrapAs(err error, k *known, cause *DeadlineError) error {
	at := ApplyError{Projection: k.name}
	var named *ApplyError
	if errors.As(err, &named) {
		at = *named
	}
	at.Err = cause
	return &at
}

// Redacted is its text, which has no values.
func (e *DeadlineError) Redacted() string { return e.Error() }

// handling is a call of a projection's code in a goroutine of its own.
type handling struct {
	done      chan error // has room for the outcome, whether or not anybody waits
	goroutine atomic.Pointer[[]byte]
	state     atomic.Int32
}

const (
	handlingRuns int32 = iota
	handlingAbandoned
	handlingDone
)

var errExited = errors.New("the projection ended its goroutine (runtime.Goexit)")

func (h *handling) run(call func() error, m *metrics) {
	id := make([]byte, 40)
	id = id[:runtime.Stack(id, false)] // "goroutine 17 [running]…"
	id, _, _ = bytes.Cut(id, []byte(" ["))
	h.goroutine.Store(&id)
	err := errExited
	defer func() {
		if !h.state.CompareAndSwap(handlingRuns, handlingDone) {
			m.stuck.Dec()
		}
		h.done <- err
	}()
	err = call()
}

// abandon goes on without code that does not return.
func (a *applier) abandon(ctx context.Context, k *known, g *Group, h *handling, timeout time.Duration) error {
	g.ended.Store(true)
	g.pipeline.abandoned = true
	g.pipeline.disconnect()
	stack := h.stack()
	a.metrics.abandoned.WithLabelValues(k.name).Inc()
	a.metrics.stuck.Inc()
	a.cfg.Logger.ErrorContext(ctx, "projection does not return, going on without it", "projection", k.name, "timeout", timeout, "stack", stack)
	if err := ctx.Err(); err != nil {
		return err
	}
	first := g.Events[0]
	return &ApplyError{Projection: k.name, CampaignID: first.CampaignID, Err: &DeadlineError{Projection: k.name, Timeout: timeout, Stack: stack, lost: true}}
}

// stack is where the goroutine is.
func (h *handling) stack() string {
	id := h.goroutine.Load()
	if id == nil {
		return "it has not begun"
	}
	all := make([]byte, 1<<20)
	for {
		n := runtime.Stack(all, true)
		if n < len(all) || len(all) >= 64<<20 {
			all = all[:n]
			break
		}
		all = make([]byte, 2*len(all))
	}
	for one := range bytes.SplitSeq(all, []byte("\n\n")) {
		if bytes.HasPrefix(one, append(*id, ' ')) {
			return redact.Stack(string(one))
		}
	}
	return "it has ended"
}

// verdict is about an event for one projection.
type verdict struct {
	projection string
	campaignID string
	seq        int64
}

// verdict is what is known of an event before it is tried: that it cannot be read, or that the projection has failed on it in a way that took the transaction with it.
func (t *transaction) verdict(k *known, u *unit, e *journal.Event) error {
	if err := u.spoiled[e.Seq]; err != nil {
		return err
	}
	return t.verdicts[verdict{k.name, e.CampaignID, e.Seq}]
}

// noteLate notes in a [DeadlineError] what was tried.
func noteLate(err error, events []journal.Event) {
	var late *DeadlineError
	if errors.As(err, &late) {
		late.events, late.at = len(events), verdict{late.Projection, events[0].CampaignID, events[0].Seq}
	}
}

// applyCampaignInTime is applyCampaign that gets over deadlines which cost the transaction. A deadline
// of many events says nothing of one: they are tried one by one then. verdicts is what is known
// beforehand.
func (a *applier) applyCampaignInTime(ctx context.Context, units []*unit, events int, verdicts map[verdict]error, marked bool) (int, error) {
	for {
		n, err := a.applyCampaign(ctx, units, events, verdicts, marked)
		var late *DeadlineError
		switch {
		case !errors.As(err, &late) || late.events == 0 || ctx.Err() != nil:
			return n, err
		case late.events > 1:
			events = 1
		default:
			verdicts[late.at] = late
		}
		a.pace.limit.shrink()
	}
}

// queueSettings queues the settings of a transaction.
func (t *transaction) queueSettings() {
	// A handler may sit in Go for as long as its timeout, and a while until it is given up.
	idle := max(t.p.cfg.LeaseTTL, t.p.longest+2*grace)
	t.queue(querySettings, t.path, strconv.FormatInt(idle.Milliseconds(), 10), t.p.longest.Milliseconds(), max(1, t.p.longest.Milliseconds()/2)).
		QueryRow(func(row pgx.Row) error {
			var milliseconds float64
			err := row.Scan(nil, nil, nil, nil, nil, nil, nil, &milliseconds)
			t.limit = time.Duration(milliseconds) * time.Millisecond
			return err
		})
}

// limitStatements queues the limit on the statements of one projection, where it differs from the one in force.
func (t *transaction) limitStatements(timeout time.Duration) {
	if t.timeout == 0 || timeout == t.inForce { // the limits of somebody else's transaction stay as they are
		return
	}
	if t.batch.Len() == 0 || timeout < t.timeout {
		t.timeout = timeout
	}
	t.inForce = timeout
	t.queue(queryStatementTimeout, strconv.FormatInt(min(timeout, t.limit).Milliseconds(), 10))
}

// disconnect returns what ends a connection at once, whoever uses it.
func disconnect(conn *pgxpool.Conn) func() {
	wire := conn.Conn().PgConn().Conn()
	return func() { _ = wire.Close() }
}

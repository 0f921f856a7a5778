package apply

import (
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Supervise calls a projection's code with a context that ends at its deadline. Code that has not
// returned [registry.Grace] later is abandoned: its connection is closed and its group ended, so it
// has no effect. In the application's own transaction, Supervise waits for it.
func (a *Applier) Supervise(
	ctx context.Context, k *registry.Projection, g *projection.Group, run func(context.Context) error,
) error {
	timeout, start := k.Timeout(g.Events), time.Now()
	loops.Of(ctx).Within(a.Promises.Step)
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	h := &handling{done: make(chan error, 1)}
	go h.run(func() error { return guarded(k, g, func() error { return run(bounded) }) }, a.Metrics)
	select {
	case err := <-h.done:
		return late(bounded, k, g, err, timeout, start)
	case <-bounded.Done():
	}
	if kind.LineOf(g).Disconnect != nil {
		select {
		case err := <-h.done:
			return late(bounded, k, g, err, timeout, start)
		case <-time.After(registry.Grace):
		}
		if h.decided.CompareAndSwap(false, true) {
			return a.abandon(ctx, k, g, timeout)
		}
	}
	return late(bounded, k, g, <-h.done, timeout, start)
}

// late turns an error that a deadline has caused into a [failure.DeadlineError].
func late(
	bounded context.Context, k *registry.Projection, g *projection.Group, err error, timeout time.Duration,
	start time.Time,
) error {
	closed := kind.LineOf(g).Conn != nil && kind.LineOf(g).Conn.IsClosed()
	passed := errors.Is(err, context.DeadlineExceeded)
	switch {
	case errors.Is(bounded.Err(), context.DeadlineExceeded) && time.Since(start) >= timeout && (closed || passed):
		return wrapAs(err, k, timeout, failure.Attempt{Lost: closed})
	case bounded.Err() == nil && closed && passed && pgconn.Timeout(err):
		// pgx closes a connection when it gives up a request, so the network did not end this one.
		return wrapAs(err, k, timeout, failure.Attempt{Lost: true, Own: true})
	}
	return failure.Cancelled(err, k.Name, timeout, start)
}

// wrapAs replaces err's cause by a deadline, and keeps the event that err names.
func wrapAs(err error, k *registry.Projection, timeout time.Duration, tried failure.Attempt) error {
	at := projection.ApplyError{Projection: k.Name}
	if named, ok := errors.AsType[*projection.ApplyError](err); ok {
		at = *named
	}
	at.Err = &failure.DeadlineError{Projection: k.Name, Timeout: timeout, Tried: tried}
	return &at
}

// handling is a call of a projection's code in its own goroutine.
type handling struct {
	done    chan error  // buffered: the goroutine ends even if the result is never read
	decided atomic.Bool // it has returned, or was abandoned before
}

var errExited = errors.New("the projection ended its goroutine (runtime.Goexit)")

func (h *handling) run(call func() error, m *registry.Metrics) {
	err := errExited
	defer func() {
		if !h.decided.CompareAndSwap(false, true) {
			m.Projections.Stuck.Dec()
		}
		h.done <- err
	}()
	err = call()
}

// abandon ends the group and closes the connection of code that does not return.
func (a *Applier) abandon(
	ctx context.Context, k *registry.Projection, g *projection.Group, timeout time.Duration,
) error {
	kind.EndGroup(g)
	kind.LineOf(g).Abandoned = true
	kind.LineOf(g).Disconnect()
	a.Metrics.Projections.Abandoned.WithLabelValues(k.Name).Inc()
	a.Metrics.Projections.Stuck.Inc()
	a.Cfg.Logger.ErrorContext(ctx, "projection does not return, going on without it", "projection", k.Name,
		"timeout", timeout)
	if err := ctx.Err(); err != nil {
		return err
	}
	first := g.Events[0]
	return &projection.ApplyError{
		Projection: k.Name, CampaignID: first.CampaignID,
		Err: &failure.DeadlineError{
			Projection: k.Name, Timeout: timeout, Tried: failure.Attempt{Lost: true, Abandoned: true},
		},
	}
}

// noteLate records in a [failure.DeadlineError] which events were tried.
func noteLate(err error, events []event.Event) {
	if late, ok := errors.AsType[*failure.DeadlineError](err); ok {
		late.Tried.Events, late.Tried.At = len(events), failure.Verdict{
			Projection: late.Projection, CampaignID: events[0].CampaignID, Seq: events[0].Seq,
		}
	}
}

// applyCampaignInTime repeats applyCampaign after deadlines that cost the transaction. A deadline
// of many events blames none of them, so they are tried one by one next.
func (a *Applier) applyCampaignInTime(ctx context.Context, units []*Unit, how *solo) (int, error) {
	for {
		n, err := a.applyCampaign(ctx, units, how)
		switch late, ok := errors.AsType[*failure.DeadlineError](err); {
		case !ok || late.Tried.Events == 0 || ctx.Err() != nil:
			return n, err
		case late.Tried.Events > 1:
			how.events = 1
		default:
			how.verdicts[late.Tried.At] = late
		}
		a.Pace.shrink()
	}
}

// disconnect returns a function that closes a connection at once, even while it is in use.
func disconnect(conn *pgxpool.Conn) func() {
	wire := conn.Conn().PgConn().Conn()
	return func() { _ = wire.Close() }
}

// Load calls the projection's Load, if it has one. A panic becomes an error.
func (a *Applier) Load(ctx context.Context, k *registry.Projection, g *projection.Group) (err error) {
	l, ok := k.Projection.(projection.Loader)
	if !ok {
		return nil
	}
	return a.Supervise(ctx, k, g, func(ctx context.Context) error { return l.Load(ctx, g) })
}

// Apply calls the projection. A panic becomes an error.
func (a *Applier) Apply(ctx context.Context, k *registry.Projection, g *projection.Group) error {
	return a.Supervise(ctx, k, g, func(ctx context.Context) error { return k.Apply(ctx, g) })
}

func guarded(k *registry.Projection, g *projection.Group, call func() error) (err error) {
	kind.LineOf(g).At = pipeline.Origin{Projection: k.Name}
	defer func() {
		if r := recover(); r != nil {
			err = kind.LineOf(g).At.Wrap(&failure.PanicError{Value: r, Stack: string(debug.Stack())})
		}
		kind.LineOf(g).At = pipeline.Origin{}
	}()
	err = call()
	if _, named := errors.AsType[*projection.ApplyError](err); err == nil || named {
		return err
	}
	return kind.LineOf(g).At.Wrap(err)
}

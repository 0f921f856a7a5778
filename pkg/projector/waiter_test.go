package projector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/waiter"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// waiterOn runs a waiter until the test ends. Its connection has a name of its own.
func waiterOn(t *testing.T, pool *pgxpool.Pool) *waiter.Waiter {
	t.Helper()
	config := pool.Config()
	config.ConnConfig.RuntimeParams["application_name"] = "waits"
	own, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	w := waiter.New(own, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

func appendToken(t *testing.T, pool *pgxpool.Pool, campaign string, events ...event.Event) string {
	t.Helper()
	if len(events) == 0 {
		events = []event.Event{{Type: "moved", Payload: []byte(`{"by": 1}`)}}
	}
	var appended []journal.Appended
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		appended, err = journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any, events...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return appended[len(appended)-1].Token()
}

// soon bounds a wait that is expected to go on.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// registered registers the projections, so that no wait comes before.
func registered(t *testing.T, p *projector.Projector) *projector.Projector {
	t.Helper()
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

func waitsOn(t *testing.T, w *waiter.Waiter, token string, projections ...string) {
	t.Helper()
	if err := w.Wait(soon(t), token, projections...); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait for %s = %v, want it to go on", token, err)
	}
}

func waited(t *testing.T, w *waiter.Waiter, token string, projections ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.Wait(ctx, token, projections...); err != nil {
		t.Fatal(err)
	}
}

// refused expects that a wait ends at once because of a status.
func refused(t *testing.T, w *waiter.Waiter, token, projection string, want waiter.NotAppliedError) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := w.Wait(ctx, token, projection)
	var got *waiter.NotAppliedError
	if !errors.As(err, &got) {
		t.Fatalf("Wait for %s = %v, want %s", token, err, want.Status)
	}
	if message := got.Message; !strings.Contains(message, want.Message) {
		t.Errorf("the message %q does not have %q", message, want.Message)
	}
	want.Message = got.Message
	if *got != want {
		t.Errorf("Wait for %s = %+v, want %+v", token, *got, want)
	}
}

func TestAWaitEndsOnceTheEventIsAppliedAndNotBefore(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	w := waiterOn(t, pool)
	let := make(chan struct{})
	var held atomic.Bool
	running(t, registered(t, workerOf(t, pool, func(c *projector.Config) {
		c.OnStep = func(s kind.Step) {
			if s == kind.StepApplied && held.Load() {
				<-let
			}
		}
	}, counters(), ordered("log"))))
	first := appendToken(t, pool, "oak")
	waited(t, w, first, "counters", "log")
	held.Store(true)
	second := appendToken(t, pool, "oak")
	waitsOn(t, w, second, "counters", "log")
	waited(t, w, first, "counters") // an earlier event is applied
	close(let)
	waited(t, w, second, "counters", "log")
	if n := query[int](t, pool, `SELECT (doc ->> 'count')::int FROM tidemark_views.counters WHERE campaign_id = 'oak'`); n != 2 {
		t.Errorf("the row has %d events after the wait", n)
	}
}

func TestAThousandWaitsShareOneConnection(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	w := waiterOn(t, pool)
	p := workerOf(t, pool, nil, counters(), ordered("log"))
	drain(t, p)
	g, ctx := errgroup.WithContext(t.Context())
	for i := range 1000 {
		token := appendToken(t, pool, fmt.Sprintf("c%d", i))
		g.Go(func() error { return w.Wait(ctx, token, "counters", "log") })
	}
	const connections = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'waits'`
	if n := query[int](t, pool, connections); n != 1 {
		t.Errorf("1,000 waits have %d connections", n)
	}
	drain(t, p)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, pool, connections); n != 1 {
		t.Errorf("the waiter has %d connections", n)
	}
}

func TestAWaitForAFailedCampaignIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	w := waiterOn(t, pool)
	list := newPicky(nil).failWith(func(_ *projection.Group, e event.Event, _ moved) error {
		if e.CampaignID == "dead" && e.Seq == 2 {
			return projection.Permanent(errors.New("no such place"))
		}
		if e.CampaignID == "failed" {
			return errors.New("not now")
		}
		return nil
	})
	running(t, registered(t, workerOf(t, pool, nil, list, counters())))
	first, second := appendToken(t, pool, "dead"), appendToken(t, pool, "dead")
	third := appendToken(t, pool, "dead")
	// The wait begins before the failure or after it.
	refused(t, w, third, "picky", waiter.NotAppliedError{
		Projection: "picky", CampaignID: "dead", Seq: 3, Status: waiter.Dead, At: 2, Message: "no such place",
	})
	refused(t, w, second, "picky", waiter.NotAppliedError{
		Projection: "picky", CampaignID: "dead", Seq: 2, Status: waiter.Dead, At: 2, Message: "no such place",
	})
	waited(t, w, first, "picky") // events before it are applied
	waited(t, w, third, "counters")
	refused(t, w, appendToken(t, pool, "failed"), "picky", waiter.NotAppliedError{
		Projection: "picky", CampaignID: "failed", Seq: 1, Status: waiter.Failed, At: 1, Message: "not now",
	})
	list.heal()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return failed.Requeue(t.Context(), tx, failed.Key{Projection: "picky", CampaignID: "dead"}, failed.Act{By: "ada"})
	})
	if err != nil {
		t.Fatal(err)
	}
	for {
		err := w.Wait(t.Context(), third, "picky")
		var still *waiter.NotAppliedError
		if err == nil {
			return
		} else if !errors.As(err, &still) {
			t.Fatal(err)
		}
	}
}

func TestOneProjectionThatFailsEndsAWaitForSeveral(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	w := waiterOn(t, pool)
	list := newPicky(nil).failWith(func(*projection.Group, event.Event, moved) error {
		return projection.Permanent(errors.New("no such place"))
	})
	drain(t, workerOf(t, pool, nil, list, counters()))
	token := appendToken(t, pool, "oak")
	drain(t, workerOf(t, pool, nil, list, counters()))
	err := w.Wait(t.Context(), token, "counters", "picky")
	var got *waiter.NotAppliedError
	if !errors.As(err, &got) || got.Projection != "picky" {
		t.Errorf("Wait = %v", err)
	}
}

func TestAWaitForWhatIsPausedOrUnknownIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	w := waiterOn(t, pool)
	p := workerOf(t, pool, nil, counters(), ordered("log"))
	applied := appendToken(t, pool, "oak")
	drain(t, p)
	for name, target := range map[string]pause.Target{
		"group":      {Group: "default"},
		"projection": {Group: "default", Projection: "counters"},
		"campaign":   {Group: "default", CampaignID: "oak"},
	} {
		if err := setPause(t.Context(), pool, target, 0); err != nil {
			t.Fatal(err)
		}
		token := appendToken(t, pool, "oak")
		refused(t, w, token, "counters", waiter.NotAppliedError{
			Projection: "counters", CampaignID: "oak", Seq: token1(t, token).Seq, Status: waiter.Paused,
			Message: "the " + name + " is paused by ada",
		})
		waited(t, w, applied, "counters") // its events from before the pause are there
		if name == "projection" {
			waitsOn(t, w, token, "log")
		}
		if err := endPause(t.Context(), pool, target); err != nil {
			t.Fatal(err)
		}
		waitsOn(t, w, token, "counters")
		drain(t, p)
		waited(t, w, token, "counters", "log")
	}
	refused(t, w, applied, "countrs", waiter.NotAppliedError{
		Projection: "countrs", CampaignID: "oak", Seq: 1, Status: waiter.Unregistered,
	})
}

func token1(t *testing.T, text string) journal.Token {
	t.Helper()
	token, err := journal.ParseToken(text)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestAWaitForAnAppendThatWasRolledBackIsNotEndedByAnotherEvent(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	w := waiterOn(t, pool)
	p := workerOf(t, pool, nil, counters())
	drain(t, p)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	appended, err := journal.Journal{}.Append(t.Context(), tx, "oak", journal.Any, event.Event{Type: "moved", Payload: []byte(`{"by": 1}`)})
	if err != nil {
		t.Fatal(err)
	}
	token := appended[0].Token()
	waitsOn(t, w, token, "counters") // before the commit
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitsOn(t, w, token, "counters") // nothing tells yet that it never happens
	appendToken(t, pool, "oak")
	drain(t, p)
	refused(t, w, token, "counters", waiter.NotAppliedError{
		Projection: "counters", CampaignID: "oak", Seq: 1, Status: waiter.Replaced,
	})
}

func TestEventsThatAreNotForProjectionsAreAppliedWithThoseBefore(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	w := waiterOn(t, pool)
	p := workerOf(t, pool, nil, counters())
	drain(t, p)
	audit := event.Event{Type: "looked_at", Intent: event.AuditOnly}
	waited(t, w, appendToken(t, pool, "only", audit), "counters")
	appendToken(t, pool, "oak")
	token := appendToken(t, pool, "oak", audit)
	waitsOn(t, w, token, "counters")
	drain(t, p)
	waited(t, w, token, "counters")
}

func TestARebuildDoesNotHoldUpAWait(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	w := waiterOn(t, pool)
	ready(t, pool) // counters~next is being built
	exec(t, pool, `INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
		VALUES ('projection', 'default', 'counters~next', '', 'ada')`)
	token := appendToken(t, pool, "oak")
	waitsOn(t, w, token, "counters")
	drain(t, workerOf(t, pool, nil, tripled(1))) // the live tables
	waited(t, w, token, "counters")
}

func TestALostNotificationOnlyDelaysAWait(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	w := waiterOn(t, pool)
	config := pool.Config()
	config.ConnConfig.RuntimeParams["tidemark.notify"] = "off"
	silent, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(silent.Close)
	p := workerOf(t, silent, nil, counters())
	drain(t, p)
	token := appendToken(t, pool, "oak")
	ended := make(chan error, 1)
	go func() { ended <- w.Wait(t.Context(), token, "counters") }()
	waitsOn(t, w, token, "counters")
	drain(t, p)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	t.Run("and so does a lost connection", func(t *testing.T) {
		token := appendToken(t, pool, "oak")
		go func() { ended <- w.Wait(t.Context(), token, "counters") }()
		waitsOn(t, w, token, "counters")
		exec(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'waits'`)
		drain(t, p)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}

func TestWorkersNotifyOnlyWhileAProgramWaits(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	if _, err := conn.Exec(t.Context(), "LISTEN "+lease.ChannelApplied); err != nil {
		t.Fatal(err)
	}
	p := workerOf(t, pool, func(c *projector.Config) { c.ClaimCampaigns = 1 }, counters())
	// groups applies some groups, and returns how many notified.
	groups := func() (notified int) {
		for i := range 5 {
			appendToken(t, pool, fmt.Sprintf("c%d", i))
		}
		drain(t, p)
		exec(t, pool, "SELECT pg_notify($1, 'end')", lease.ChannelApplied)
		for {
			n, err := conn.WaitForNotification(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n.Payload == "end" {
				return notified
			}
			notified++
		}
	}
	if n := groups(); n > 0 {
		t.Errorf("nobody waits, and %d groups notify", n)
	}
	exec(t, pool, "SELECT tidemark.await(10000)")
	if n := groups(); n == 0 {
		t.Error("a program waits, and no group notifies")
	}
	exec(t, pool, "SELECT setval('tidemark.awaited', (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1)")
	if n := groups(); n > 0 {
		t.Errorf("the wait is over, and %d groups notify", n)
	}
}

func TestAWaitEndsWithItsContextItsWaiterOrAWrongToken(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	drain(t, workerOf(t, pool, nil, counters()))
	token := appendToken(t, pool, "oak")
	w := waiter.New(pool, nil)
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()

	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() { waits <- w.Wait(ctx, token, "counters") }()
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `event 1 of campaign "oak"`) {
		t.Errorf("a cancelled wait returns %v", err)
	}
	if err := w.Wait(t.Context(), "oak", "counters"); !errors.Is(err, journal.ErrInvalidToken) {
		t.Errorf("a wrong token returns %v", err)
	}
	if err := w.Wait(t.Context(), token); err == nil {
		t.Error("a wait for no projection returns nothing")
	}
	go func() { waits <- w.Wait(t.Context(), token, "counters") }()
	waitsOn(t, w, token, "counters")
	stop()
	if err := <-waits; !errors.Is(err, waiter.ErrStopped) {
		t.Errorf("the waiter has stopped, and a wait returns %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := w.Wait(t.Context(), token, "counters"); !errors.Is(err, waiter.ErrStopped) {
		t.Errorf("the waiter has stopped, and a later wait returns %v", err)
	}
}

func TestAWaitWorksInEveryModeOfAConnection(t *testing.T) {
	t.Parallel()
	for _, mode := range execModes() {
		pool := inMode(t, pgtest.New(t), mode)
		w := waiterOn(t, pool)
		p := workerOf(t, pool, nil, counters())
		drain(t, p)
		token := appendToken(t, pool, "oak")
		waitsOn(t, w, token, "counters")
		drain(t, p)
		waited(t, w, token, "counters")
	}
}

func TestAWaitForAProjectionAcrossCampaignsIsAboutItsPlace(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	w := waiterOn(t, pool)
	code := &scores{partitions: 2}
	p := workerOf(t, pool, nil, code.projections()...)
	drain(t, p)
	event := func(points int) event.Event {
		return event.Event{Type: "scored", Payload: fmt.Appendf(nil, `{"player": "ada", "points": %d}`, points)}
	}
	token := appendToken(t, pool, "oak", event(1))
	waitsOn(t, w, token, "board")
	drain(t, p)
	waited(t, w, token, "board", "list")
	code.refuses.Store(13)
	appendToken(t, pool, "oak", event(2))
	refusedToken, later := appendToken(t, pool, "oak", event(13)), appendToken(t, pool, "elm", event(3))
	drain(t, p)
	at := token1(t, refusedToken)
	refused(t, w, refusedToken, "board", waiter.NotAppliedError{
		Projection: "board", CampaignID: "oak", Seq: 3, Status: waiter.Failed, At: at.Position, Message: "refused",
	})
	waited(t, w, later, "board") // only the code knows that it has the same key
}

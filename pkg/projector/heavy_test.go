package projector_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/heavy"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// The limit on statements and what the read of a heavy event takes. A read with four times the limit is long enough.
const (
	heavyLimit = time.Second
	heavyTakes = 2500 * time.Millisecond
)

func withHeavyLimit(cfg *projector.Config) { cfg.ApplyTimeout, cfg.Concurrency = heavyLimit, 2 }

func TestASlowReadIsAppliedAndHoldsUpNoOtherCampaign(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p := workerOf(t, pool, withHeavyLimit, counters(), ledger())
	drain(t, p)
	appendMoves(t, pool, "heavy", 1, 2, 3)
	for _, campaign := range []string{"a", "b", "z"} {
		appendMoves(t, pool, campaign, 1, 1)
	}
	event := heavy.Make(t, pool, "heavy", 2, heavyTakes)
	drain(t, p)
	if n := query[int](t, pool, `SELECT count(*) FROM ledger`); n != 9 {
		t.Errorf("%d events were applied, want 9", n)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.failed`); n != 0 {
		t.Errorf("%d campaigns are behind", n)
	}
	if event.Reads(t) < 2 {
		t.Error("no limit has ended a read")
	}
}

// runs runs the projector until stop is called.
func runs(t *testing.T, p *projector.Projector) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// heavyBoard has a board across campaigns with events of p1 and p2 that it refuses, so that both keys are held back.
// What comes behind them is read, and passed.
func heavyBoard(t *testing.T, events ...scored) (*pgxpool.Pool, *scores, *projector.Projector) {
	t.Helper()
	pool, s := pgtest.New(t), &scores{partitions: 1}
	s.refuses.Store(7)
	p := workerOf(t, pool, func(cfg *projector.Config) { cfg.PollInterval = 100 * time.Millisecond }, s.projections()[0])
	drain(t, p)
	score(t, pool, "game", events...)
	drain(t, p)
	s.refuses.Store(0)
	return pool, s, p
}

// dueWhile runs the projector with a session limit of a second. While the heavy event is read again with more time,
// p3 gets a new event and p2 is no longer held back. Then the read ends.
func dueWhile(t *testing.T, pool *pgxpool.Pool, p *projector.Projector, event heavy.Event) {
	t.Helper()
	heavy.Limit(t, pool, heavyLimit)
	const due = `UPDATE tidemark.failed SET next_attempt_at = now() WHERE campaign_id = $1`
	exec(t, pool, due, "p1")
	defer runs(t, p)()
	within(t, "the read is repeated", func() bool { return event.Reads(t) > 1 })
	score(t, pool, "other", scored{"p3", 1})
	within(t, "the live event is applied", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark_views.board WHERE key = 'p3'`) == 1
	})
	exec(t, pool, due, "p2")
	within(t, "the other key is tried", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark.failed WHERE campaign_id = 'p2'`) == 0
	})
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.failed WHERE campaign_id = 'p1'`); n != 1 {
		t.Fatal("the heavy event has been read")
	}
	event.Release(t)
	within(t, "the key goes on", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark.failed`) == 0
	})
	if stuck := p.Stuck(); len(stuck) > 0 {
		t.Errorf("stuck: %v", stuck)
	}
}

func TestAFailedEventThatOutlastsTheLimitOfReadsHoldsUpNoOtherKey(t *testing.T) {
	t.Parallel()
	pool, _, p := heavyBoard(t, scored{"p1", 7}, scored{"p2", 7})
	dueWhile(t, pool, p, heavy.Block(t, pool, "game", 1))
}

func TestASlowReadHoldsUpNoOtherKeyThatIsBehind(t *testing.T) {
	t.Parallel()
	pool, _, p := heavyBoard(t, scored{"p1", 7}, scored{"p1", 1}, scored{"p2", 7}, scored{"p2", 1}, scored{"p2", 2})
	dueWhile(t, pool, p, heavy.Block(t, pool, "game", 2))
}

func TestAnEventThatOutlastsTheLimitOfReadsIsAppliedAcrossCampaigns(t *testing.T) {
	t.Parallel()
	pool, s := pgtest.New(t), &scores{partitions: 2}
	all := s.projections()
	drain(t, workerOf(t, pool, nil, all[0]))
	score(t, pool, "game", scored{"p1", 1}, scored{"p2", 2}, scored{"p1", 3})
	drain(t, workerOf(t, pool, nil, all[0]))
	both := workerOf(t, pool, func(cfg *projector.Config) {
		cfg.PollInterval, cfg.ShutdownTimeout = 100*time.Millisecond, time.Second
	}, all...)
	if err := both.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	event := heavy.Block(t, pool, "game", 2)
	heavy.Limit(t, pool, heavyLimit)
	stop := runs(t, both)
	within(t, "the read is repeated", func() bool { return event.Reads(t) > 1 })
	score(t, pool, "other", scored{"p3", 1})
	within(t, "another projection goes on", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark_views.board WHERE key = 'p3'`) == 1
	})
	if n := query[int](t, pool, `SELECT count(*) FROM list`); n != 1 {
		t.Errorf("%d keys before the heavy event, want 1", n)
	}
	stop()
	begun := event.Reads(t)
	done := make(chan error, 1)
	go func() {
		_, err := workerOf(t, pool, nil, all...).Drain(t.Context())
		done <- err
	}()
	within(t, "a drain repeats the read", func() bool { return event.Reads(t) > begun+1 })
	event.Release(t)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, pool, `SELECT sum(games) FROM list`); n != 4 {
		t.Errorf("%d events are applied, want 4", n)
	}
}

func TestAnEventThatOutlastsTheLimitOfReadsIsRebuilt(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	drain(t, workerOf(t, pool, nil, kindsOf(t, "k", 1)...))
	appendMoves(t, pool, "heavy", 1, 2, 3)
	appendMoves(t, pool, "light", 1)
	drain(t, workerOf(t, pool, nil, kindsOf(t, "k", 1)...))
	event := heavy.Make(t, pool, "heavy", 2, heavyTakes)
	two := workerOf(t, pool, withHeavyLimit, kindsOf(t, "k", 2)...)
	drain(t, two)
	if event.Reads(t) < 2 {
		t.Error("no limit has ended a read")
	}
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.projections WHERE version = 2 AND state = 'active'`); n != 3 {
		t.Errorf("%d projections have the new version, want 3: %s", n, registry(t, pool))
	}
	event.Release(t)
	if got, want := contents(t, pool, "tidemark_views", "k"), folded(t, pool, 2); got != want {
		t.Errorf("rebuilt tables hold\n%swant\n%s", got, want)
	}
}

func TestLooksBackAtAnEventThatOutlastsTheLimitOfReads(t *testing.T) {
	t.Parallel()
	pool, s := pgtest.New(t), &scores{partitions: 1}
	board := s.projections()[0]
	drain(t, workerOf(t, pool, nil, ledger(), board))
	appendMoves(t, pool, "heavy", 1, 2, 3)
	score(t, pool, "heavy", scored{"p1", 1}, scored{"p1", 2})
	drain(t, workerOf(t, pool, nil, ledger(), board))
	heavy.Make(t, pool, "heavy", 2, heavyTakes)
	heavy.Limit(t, pool, heavyLimit)
	p := workerOf(t, pool, withHeavyLimit, ledger(), board)
	state, err := p.AsOf(t.Context(), "ledger", "heavy", 3)
	if err != nil || len(state.Tables) != 1 || len(state.Tables[0].Rows) != 3 {
		t.Errorf("as of event 3: %+v, %v", state, err)
	}
	why, err := p.Why(t.Context(), lookback.WhyRequest{Projection: "ledger", CampaignID: "heavy", Key: []string{"2"}, Seq: 2})
	if err != nil || why.Seq != 2 {
		t.Errorf("why: %+v, %v", why, err)
	}
	for _, name := range []string{"ledger", "board"} {
		report, err := p.Verify(t.Context(), lookback.VerifyRequest{Projection: name, All: true})
		if err != nil || report.Differences() > 0 {
			t.Errorf("verify %s: %+v, %v", name, report, err)
		}
	}
}

func TestASlowReadIsAppliedAcrossCampaigns(t *testing.T) {
	t.Parallel()
	pool, s := pgtest.New(t), &scores{partitions: 2}
	score(t, pool, "game", scored{"p1", 1}, scored{"p2", 2}, scored{"p1", 3})
	heavy.Make(t, pool, "game", 2, heavyTakes)
	p := workerOf(t, pool, nil, s.projections()...)
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	heavy.Limit(t, pool, heavyLimit)
	drained(t, p, 6)
}

package projector_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// ordered numbers the events that it applies. A row whose number differs from its seq was applied
// too early, too late or twice.
func ordered(name string) projection.Projection {
	return projection.Handlers{
		Name: name, Version: 1, Tables: fmt.Sprintf(`CREATE TABLE %s (campaign_id
		text, seq bigint, number bigint, PRIMARY KEY (campaign_id, number))`, name),
		On: []projection.Handler{
			projection.Handle("moved", func(_ context.Context, g *projection.Group, e event.Event, _ moved) error {
				g.Queue(fmt.Sprintf(`INSERT INTO %[1]s SELECT $1, $2, 1 + count(*) FROM %[1]s
			WHERE campaign_id = $1`, name), e.CampaignID, e.Seq)
				return nil
			}),
		},
	}
}

func setPause(ctx context.Context, pool *pgxpool.Pool, target pause.Target, d time.Duration) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return pause.Set(ctx, tx, target, "ada", "", d) })
}

func endPause(ctx context.Context, pool *pgxpool.Pool, target pause.Target) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return pause.Resume(ctx, tx, target, "ada", "") })
}

func drained(t *testing.T, p *projector.Projector, want int) {
	t.Helper()
	if n, err := p.Drain(t.Context()); err != nil || n != want {
		t.Fatalf("Drain = %d, %v, want %d", n, err, want)
	}
}

func TestPaused(t *testing.T) {
	t.Parallel()
	group := pause.Target{Group: "default"}
	begin := func(t *testing.T) (*pgxpool.Pool, *projector.Projector) {
		t.Helper()
		pool := pgtest.New(t)
		p := newProjector(t, pool, counters(), ordered("log"))
		appendMoves(t, pool, "a", 1, 2)
		appendMoves(t, pool, "b", 1, 2)
		drained(t, p, 4)
		return pool, p
	}
	end := func(t *testing.T, pool *pgxpool.Pool, events int) {
		t.Helper()
		if n := query[int](t, pool, `SELECT count(*) FROM log WHERE seq = number`); n != events {
			t.Errorf("%d of %d events are applied in order by log", n, events)
		}
		if n := query[int](t, pool, `SELECT sum((doc->>'count')::int) FROM counters`); n != events {
			t.Errorf("%d of %d events are applied by counters", n, events)
		}
		if n := query[int](t, pool, `SELECT count(*) FROM tidemark.failed`); n != 0 {
			t.Errorf("%d pairs are behind", n)
		}
	}
	t.Run("a_group_applies_nothing", func(t *testing.T) {
		t.Parallel()
		pool, p := begin(t)
		if err := setPause(t.Context(), pool, group, 0); err != nil {
			t.Fatal(err)
		}
		appendMoves(t, pool, "a", 3)
		drained(t, p, 0)
		if err := endPause(t.Context(), pool, group); err != nil {
			t.Fatal(err)
		}
		drained(t, p, 1)
		end(t, pool, 5)
	})
	t.Run("a_projection_is_filed_as_behind_and_catches_up", func(t *testing.T) {
		t.Parallel()
		pool, p := begin(t)
		target := pause.Target{Group: "default", Projection: "log"}
		if err := setPause(t.Context(), pool, target, 0); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			appendMoves(t, pool, "a", 3)
			drained(t, p, 1)
		}
		if n := query[int](t, pool, `SELECT count(*) FROM log`); n != 4 {
			t.Errorf("log has %d rows: it went on", n)
		}
		if s := query[string](t, pool, `SELECT string_agg(projection || campaign_id || next_seq || status, ' ')
			FROM tidemark.failed`); s != "loga3catching_up" {
			t.Errorf("filed: %s", s)
		}
		if err := endPause(t.Context(), pool, target); err != nil {
			t.Fatal(err)
		}
		drained(t, p, 2)
		end(t, pool, 6)
	})
	t.Run("a_campaign_waits_alone_and_its_work_under_way_is_dropped", func(t *testing.T) {
		t.Parallel()
		pool, _ := begin(t)
		target := pause.Target{Group: "default", CampaignID: "a"}
		var once sync.Once
		p, err := projector.New(projector.Config{
			Pool: pool, Projections: []projection.Projection{counters(), ordered("log")},
			OnStep: func(s kind.Step) {
				if s == kind.StepApplied {
					once.Do(func() {
						if err := setPause(t.Context(), pool, target, 0); err != nil {
							t.Error(err)
						}
					})
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		appendMoves(t, pool, "a", 3)
		appendMoves(t, pool, "b", 3)
		drained(t, p, 1)
		if s := query[string](t, pool, `SELECT string_agg(campaign_id || seq, ' ' ORDER BY campaign_id, seq)
			FROM log`); s != "a1 a2 b1 b2 b3" {
			t.Errorf("applied: %s", s)
		}
		if err := endPause(t.Context(), pool, target); err != nil {
			t.Fatal(err)
		}
		drained(t, p, 1)
		end(t, pool, 6)
	})
}

// TestPausingAtRandomLosesNothing pauses and resumes everything that can be paused, while two
// workers apply a stream of appends.
func TestPausingAtRandomLosesNothing(t *testing.T) {
	t.Parallel()
	const campaigns, appends, acts = 12, 300, 120
	pool := pgtest.New(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers errgroup.Group
	for range 2 {
		p, err := projector.New(projector.Config{
			Pool: pool, Projections: []projection.Projection{ordered("one"), ordered("two")}, GroupEvents: 20, Concurrency: 1,
			PollInterval: 100 * time.Millisecond, NoListen: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		workers.Go(func() error { return p.Run(ctx) })
	}
	var others errgroup.Group
	others.Go(func() error {
		for range appends {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := journal.Journal{}.Append(ctx, tx, fmt.Sprint("c", rand.IntN(campaigns)), journal.Any, event.Event{Type: "moved"},
					event.Event{Type: "moved"})
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	targets := []pause.Target{
		{Group: "default"},
		{Group: "default", Projection: "one"},
		{Group: "default", Projection: "two"},
	}
	for i := range campaigns {
		targets = append(targets, pause.Target{Group: "default", CampaignID: fmt.Sprint("c", i)})
	}
	others.Go(func() error {
		for range acts {
			target := targets[rand.IntN(len(targets))]
			// some end on their own, some never
			err := setPause(ctx, pool, target, time.Duration(rand.IntN(3))*20*time.Millisecond)
			if rand.IntN(2) == 0 {
				err = endPause(ctx, pool, target)
			}
			if err != nil && !errors.Is(err, pause.ErrNotPaused) && !errors.Is(err, pause.ErrUnknown) {
				return err
			}
		}
		for _, target := range targets {
			if err := endPause(ctx, pool, target); err != nil && !errors.Is(err, pause.ErrNotPaused) {
				return err
			}
		}
		return nil
	})
	if err := others.Wait(); err != nil {
		t.Fatal(err)
	}
	within(t, "all that was appended is applied by both projections", func() bool {
		return query[bool](t, pool, `SELECT NOT EXISTS (SELECT FROM tidemark.outbox)
			AND NOT EXISTS (SELECT FROM tidemark.failed)`)
	})
	stop()
	if err := workers.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		if n := query[int](t, pool, fmt.Sprintf(`SELECT count(*) FROM %s WHERE seq = number`, name)); n != 2*appends {
			t.Errorf("%s applied %d of %d events in order", name, n, 2*appends)
		}
	}
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.failure_log
		WHERE act NOT IN ('paused', 'resumed')`); n > 0 {
		t.Errorf("pauses came out as %d failures", n)
	}
}

// within waits until the condition holds.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.After(5 * time.Minute)
	// Polls get rarer over time, because on a busy machine they delay what they wait for.
	for pause := 5 * time.Millisecond; !holds(); pause = min(2*pause, 40*time.Millisecond) {
		select {
		case <-limit:
			t.Fatalf("waited in vain: %s", what)
		case <-time.After(pause):
		}
	}
}

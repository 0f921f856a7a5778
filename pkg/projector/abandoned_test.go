package projector_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// stuckHere blocks until release is closed, as a handler that ignores its context does.
func stuckHere(release <-chan struct{}) { <-release }

func TestAHandlerThatIgnoresItsContextIsAbandoned(t *testing.T) {
	t.Parallel()
	given(t, abandoned)
}

func abandoned(t *testing.T, timeout time.Duration) error {
	t.Helper()
	pool := pgtest.New(t)
	release := make(chan struct{})
	var stuck sync.WaitGroup
	stuck.Add(1) // held until the release, so no handler starts during Wait
	end := sync.OnceFunc(func() {
		close(release)
		stuck.Done()
		stuck.Wait()
	})
	defer end()
	var mu sync.Mutex
	var afterwards []error
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	p := slowProjector(t, pool, sluggish(timeout, func(ctx context.Context, g *projection.Group, e event.Event) error {
		stuck.Add(1)
		defer stuck.Done()
		tx, err := g.Tx(ctx)
		if err != nil {
			return err
		}
		stuckHere(release)
		// The handler still tries to write to a group that others have long applied again.
		g.At(e)
		g.Queue(`INSERT INTO slow VALUES ('ghost', 1)`)
		_, errGroup := g.Tx(context.WithoutCancel(ctx))
		_, errTx := tx.Exec(context.WithoutCancel(ctx), `INSERT INTO slow VALUES ('ghost', 2)`)
		mu.Lock()
		defer mu.Unlock()
		if errTx == nil || !errors.Is(errGroup, projection.ErrAbandoned) {
			afterwards = append(afterwards, fmt.Errorf("it could go on: %w, %w", errGroup, errTx))
		}
		return fmt.Errorf("late, and %d events", len(g.Events))
	}), func(cfg *projector.Config) {
		cfg.Logger, cfg.Registerer = slog.New(slog.NewTextHandler(&log, nil)), registry
	})
	appendSlow(t, pool)
	if _, err := p.Drain(t.Context()); err != nil {
		return err
	}
	if err := expectLate(t, pool); err != nil {
		return err
	}
	if !strings.Contains(log.String(), "projection does not return") {
		return fmt.Errorf("the log does not say it:\n%s", &log)
	}
	abandoned := metric(t, registry, "tidemark_projections_abandoned_total")
	if abandoned < 2 || abandoned > 3 {
		return fmt.Errorf("%v calls are counted as abandoned, want those of one or two groups and that of the event",
			abandoned)
	}
	if n := metric(t, registry, "tidemark_projections_stuck"); n != abandoned {
		return fmt.Errorf("%v calls are counted as stuck, %v as abandoned", n, abandoned)
	}
	end()
	if err := errors.Join(afterwards...); err != nil {
		return err
	}
	if n := query[int](t, pool, `SELECT count(*) FROM slow WHERE campaign_id = 'ghost'`); n > 0 {
		return fmt.Errorf("what was abandoned wrote %d rows", n)
	}
	return nil
}

func TestAHandlerThatEndsItsGoroutineFails(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p := slowProjector(t, pool, sluggish(time.Minute, func(context.Context, *projection.Group, event.Event) error {
		runtime.Goexit()
		return nil
	}), nil)
	appendSlow(t, pool)
	if _, err := p.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := query[string](t, pool, `SELECT concat_ws(' ', projection, campaign_id, next_seq, status)
		FROM tidemark.failed`); s != "slow b 2 failed" {
		t.Error(s)
	}
}

package projector_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestWhatAProjectionMeetsElsewhereIsItsOwnFailure(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		code string
		do   func(context.Context, *projection.Group, event.Event) error
	}{
		"a_deadline_that_it_has_set_itself": {"error", func(ctx context.Context, _ *projection.Group, _ event.Event) error {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			<-ctx.Done()
			return ctx.Err()
		}},
		"a_context_that_it_has_ended_itself": {"error", func(ctx context.Context, _ *projection.Group, _ event.Event) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx.Err()
		}},
		"a_service_that_does_not_answer": {"error", func(context.Context, *projection.Group, event.Event) error {
			return &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		}},
		"a_deadline_of_its_own_in_the_middle_of_a_statement": {
			"deadline",
			func(ctx context.Context, g *projection.Group, _ event.Event) error {
				tx, err := g.Tx(ctx)
				if err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // long enough for the statement to begin
				defer cancel()
				_, err = tx.Exec(ctx, `SELECT pg_sleep(60)`)
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			registry := prometheus.NewRegistry()
			p := slowProjector(t, pool, sluggish(time.Minute, tt.do), func(cfg *projector.Config) {
				cfg.Registerer, cfg.ApplyTimeout = registry, time.Minute
			})
			appendSlow(t, pool)
			if _, err := p.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s := query[string](t, pool, `SELECT coalesce(string_agg(concat_ws(' ', projection, campaign_id, next_seq,
				status, error_class, error_code, attempt_count), ', '), '')
				FROM tidemark.failed`); s != "slow b 2 failed transient "+tt.code+" 1" {
				t.Errorf("failed: %q", s)
			}
			if n := query[int](t, pool, `SELECT count(*) FROM slow`); n != 4 {
				t.Errorf("the projection has %d rows, want 4", n)
			}
			if n := metric(t, registry, "tidemark_breaker_state"); n != 0 {
				t.Errorf("the breaker's state is %v", n)
			}
		})
	}
}

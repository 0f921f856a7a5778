package projector_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// echo answers each ping with a pong in the campaign "out".
func echo(version, partitions int, broken bool) projection.Projection {
	return projection.Process[int]{
		Name: "echo", Version: version, Types: []string{"ping"}, Partitions: partitions, OnFailure: slow(""),
		Key:  func(e event.Event) (string, error) { return e.CampaignID, nil },
		Fold: func(n *int, _ event.Event) error { *n += version; return nil },
		React: []projection.Reaction[int]{
			projection.React("ping", func(_ *int, _ event.Event, _ struct{}) ([]projection.Do, error) {
				if broken {
					return nil, errRefused
				}
				return []projection.Do{{Campaign: "out", Events: []event.Event{{Type: "pong"}}}}, nil
			}),
		},
	}
}

const (
	pings = `SELECT count(*) FROM tidemark.journal WHERE event_type = 'ping'`
	pongs = `SELECT concat_ws(' ', count(*), count(DISTINCT metadata ->> 'causation_id')) FROM tidemark.journal
		WHERE event_type = 'pong'`
)

func TestAProcessThatIsRebuiltReactsOnceToEachEvent(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	drain(t, workerOf(t, pool, nil, echo(1, 2, false)))
	p := workerOf(t, pool, func(cfg *projector.Config) {
		cfg.PollInterval, cfg.LeaseTTL, cfg.GroupEvents = 100*time.Millisecond, 2*time.Second, 5
	}, echo(1, 2, false), echo(2, 2, false))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	n := 0
	until := func(what, sql string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !query[bool](t, pool, sql); {
			if time.Now().After(deadline) {
				t.Fatalf("not in a minute: %s", what)
			}
			for range 5 {
				appendEvents(t, pool, fmt.Sprint("in", n%7), event.Event{Type: "ping"})
				n++
			}
		}
	}
	until("the swap", `SELECT version = 2 FROM tidemark.projections WHERE name = 'echo'`)
	for deadline := time.Now().Add(time.Minute); ; {
		err := rebuild.Rollback(t.Context(), pool, "echo", rebuild.RollbackOptions{}, ada)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		appendEvents(t, pool, "in1", event.Event{Type: "ping"})
	}
	until("more", fmt.Sprintf(`SELECT count(*) > %d FROM tidemark.journal WHERE event_type = 'ping'`, n+50))
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	drain(t, workerOf(t, pool, nil, echo(1, 2, false), echo(2, 2, false)))
	for fire(t, pool) > 0 {
	}
	want := query[int](t, pool, pings)
	expectText(t, pool, "pongs", fmt.Sprint(want, " ", want), pongs)
}

func TestAProcessIsNotSwappedWhileAKeyWaitsForAReaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	drain(t, workerOf(t, pool, nil, echo(1, 1, true)))
	appendEvents(t, pool, "in", event.Event{Type: "ping"})
	drain(t, workerOf(t, pool, nil, echo(1, 1, true)))
	two := workerOf(t, pool, nil, echo(1, 1, true), echo(2, 1, false))
	drain(t, two)
	if _, err := two.Drain(t.Context()); err != nil && !strings.Contains(err.Error(), "keys of process echo wait") {
		t.Fatal(err)
	}
	expectText(t, pool, "versions", "echo 1, echo~next 2", `SELECT string_agg(name || ' ' || version, ', ' ORDER BY name)
		FROM tidemark.projections`)
	exec(t, pool, `UPDATE tidemark.failed SET next_attempt_at = now()`)
	drain(t, workerOf(t, pool, nil, echo(1, 1, false)))
	both := workerOf(t, pool, nil, echo(1, 1, false), echo(2, 1, false))
	exec(t, pool, `UPDATE tidemark.rebuilds SET refused_at = NULL`)
	drain(t, both)
	drain(t, both)
	expectText(t, pool, "version", "2", `SELECT version::text FROM tidemark.projections WHERE name = 'echo'`)
	appendEvents(t, pool, "in", event.Event{Type: "ping"})
	drain(t, both)
	for fire(t, pool) > 0 {
	}
	expectText(t, pool, "pongs", "2 2", pongs)
}

func TestAProcessKeepsItsNumberOfPartitions(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	drain(t, workerOf(t, pool, nil, echo(1, 2, false)))
	err := workerOf(t, pool, nil, echo(2, 3, false)).Register(t.Context())
	if err == nil || !strings.Contains(err.Error(), "process echo has 3 partitions here, echo is registered with 2") {
		t.Error(err)
	}
}

func TestTheNextVersionOfAProcessReactsToWhatTheFormerHasNot(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	drain(t, workerOf(t, pool, nil, echo(1, 2, false)))
	appendEvents(t, pool, "a", event.Event{Type: "ping"})
	drain(t, workerOf(t, pool, nil, echo(1, 2, false)))
	for i := range 6 {
		appendEvents(t, pool, fmt.Sprint("in", i), event.Event{Type: "ping"})
	}
	for range 3 {
		drain(t, workerOf(t, pool, nil, echo(2, 2, false)))
	}
	expectText(t, pool, "version", "2", `SELECT version::text FROM tidemark.projections WHERE name = 'echo'`)
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.scheduled`); n != 7 {
		t.Errorf("%d reactions, want one to each of 7 events", n)
	}
	for fire(t, pool) > 0 {
	}
	expectText(t, pool, "pongs", "7 7", pongs)
}

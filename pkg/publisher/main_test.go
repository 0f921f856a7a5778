package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv("TIDEMARK_TEST_RELAY") != "" {
		os.Exit(child())
	}
	pgtest.Main(m)
}

// quick returns a configuration with short waits for tests: one topic with all events, and one
// publisher to sink.
func quick(
	pool *pgxpool.Pool, sink publisher.Sink, change ...func(*publisher.Config, *publisher.Publisher),
) publisher.Config {
	p := publisher.Publisher{
		Name: "out", Sink: sink, Topics: []string{"all"}, RetryBase: 20 * time.Millisecond, RetryMax: 50 * time.Millisecond,
		BackoffMax: 100 * time.Millisecond, Timeout: 5 * time.Second,
	}
	cfg := publisher.Config{
		Pool: pool, Topics: []publisher.Topic{{Name: "all"}}, LeaseTTL: 3 * time.Second,
		PollInterval: 100 * time.Millisecond, ShutdownTimeout: 5 * time.Second,
	}
	for _, c := range change {
		c(&cfg, &p)
	}
	if cfg.Publishers == nil {
		cfg.Publishers = []publisher.Publisher{p}
	}
	return cfg
}

// start runs a relay until the test ends or stop is called.
func start(t *testing.T, cfg publisher.Config) (stop func()) {
	t.Helper()
	if testing.Verbose() && cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	relay, err := publisher.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// appendTo appends n events to each campaign.
func appendTo(t *testing.T, pool *pgxpool.Pool, n int, campaigns ...string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, c := range campaigns {
			events := make([]event.Event, n)
			for i := range events {
				events[i] = event.Event{Type: "noted", Payload: fmt.Appendf(nil, `{"n": %d}`, i)}
			}
			if _, err := (journal.Journal{}).Append(t.Context(), tx, c, journal.Any, events...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until condition returns true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	within(t, 2*time.Minute, what, condition)
}

// within is eventually for what takes long on a slow machine.
func within(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if <-tick.C; time.Now().After(deadline) {
			t.Fatalf("it did not come to be that %s", what)
		}
	}
}

// query returns one value.
func query[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func mustExec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// committed returns the ids of all events, or of those with the given types, in order of position.
func committed(t *testing.T, pool *pgxpool.Pool, types ...string) []uuid.UUID {
	t.Helper()
	rows, err := pool.Query(t.Context(),
		"SELECT event_id FROM tidemark.journal WHERE $1::text[] IS NULL OR event_type = ANY ($1) ORDER BY position", types)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// hasAll reports whether all ids have arrived.
func hasAll(received []memory.Received, ids []uuid.UUID) bool {
	arrived := map[uuid.UUID]bool{}
	for _, r := range received {
		arrived[r.ID] = true
	}
	return !slices.ContainsFunc(ids, func(id uuid.UUID) bool { return !arrived[id] })
}

// inOrder checks that the events of each campaign first arrived in order and without a gap.
func inOrder(t *testing.T, received []memory.Received) {
	t.Helper()
	last := map[string]int64{}
	for _, r := range received {
		if r.Seq > last[r.CampaignID]+1 {
			t.Errorf("event %d of campaign %s came after event %d", r.Seq, r.CampaignID, last[r.CampaignID])
		}
		last[r.CampaignID] = max(last[r.CampaignID], r.Seq)
	}
}

// position returns the position of the pair.
func position(t *testing.T, pool *pgxpool.Pool) int64 {
	t.Helper()
	return query[int64](t, pool, "SELECT coalesce(max(position), -1) FROM tidemark.readers WHERE publisher = 'out'")
}

var errRefused = errors.New("refused")

package roles_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
)

func TestPublisher(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	in.fill(t)
	pool := in.as(t, "publisher")
	publish(t, in, pool)
	refuses(t, pool, "SELECT FROM tidemark.outbox", "DELETE FROM tidemark.leases",
		"UPDATE tidemark.journal SET payload = '{}'",
		`SELECT * FROM tidemark.append('c',
			'[{"type": "noted"}]')`, "INSERT INTO tidemark.operator_log (actor, act) VALUES ('me', 'x')",
		"SELECT FROM tidemark.tokens", "SELECT FROM tidemark.failed", "CREATE TABLE tidemark.mine (n integer)")
}

func TestWorkerPublishesToo(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	in.fill(t)
	publish(t, in, in.as(t, "worker"))
}

// publish lets a relay publish all events, and the notice that one of them is erased.
func publish(t *testing.T, in installation, pool *pgxpool.Pool) {
	t.Helper()
	must(t, pgx.BeginFunc(t.Context(), in.admin, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, "published", journal.Any, event.Event{Type: "noted"})
		return err
	}))
	_, err := erasure.Erase(t.Context(), in.admin, erasure.Request{Campaign: "published", By: "eve", Reason: "a test"})
	must(t, err)
	sink := &memory.Sink{}
	reached := make(chan struct{}, 16)
	sink.OnPublish = func(_ context.Context, events []publisher.Event) error {
		if events[len(events)-1].Type == erasure.EventType {
			reached <- struct{}{}
		}
		return nil
	}
	relay, err := publisher.New(publisher.Config{
		Pool: pool, Topics: []publisher.Topic{{Name: "all"}},
		Publishers: []publisher.Publisher{{Name: "it", Sink: sink, Topics: []string{"all"}}},
	})
	must(t, err)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	select {
	case <-reached:
	case <-ctx.Done():
		t.Fatal("nothing was published")
	}
	stop()
	must(t, <-done)
	var position int64
	must(t, in.admin.QueryRow(t.Context(), "SELECT position FROM tidemark.readers").Scan(&position))
	if position == 0 {
		t.Error("the position was not written")
	}
}

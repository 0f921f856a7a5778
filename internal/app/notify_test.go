package app

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/waiter"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// ear listens to all channels of Tidemark.
type ear struct {
	*pgx.Conn
	t *testing.T
}

func listen(t *testing.T, pool *pgxpool.Pool) ear {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err == nil {
		_, err = conn.Exec(t.Context(), `LISTEN tidemark_work; LISTEN tidemark_applied; LISTEN tidemark_scheduled;
			LISTEN tidemark_relay`, pgx.QueryExecModeSimpleProtocol)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return ear{conn, t}
}

// heard returns the notifications of all transactions that have ended.
func (e ear) heard() (channels []string) {
	e.t.Helper()
	if _, err := e.Exec(e.t.Context(), "SELECT 1"); err != nil { // its answer comes after them
		e.t.Fatal(err)
	}
	over, cancel := context.WithDeadline(e.t.Context(), time.Unix(1, 0)) // takes what has been received
	defer cancel()
	for {
		n, err := e.WaitForNotification(over)
		if err != nil {
			return channels
		}
		channels = append(channels, n.Channel)
	}
}

// full makes the NOTIFY queue as full as told. To fill a real one takes 4 GB.
func full(t *testing.T, pool *pgxpool.Pool, usage string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), fmt.Sprintf(`CREATE OR REPLACE FUNCTION tidemark.notify_queue_usage()
		RETURNS double precision LANGUAGE sql AS 'SELECT %s::double precision'`, usage))
	if err != nil {
		t.Fatal(err)
	}
}

// until repeats a step until it is true.
func until(t *testing.T, what string, step func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !step(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("not within 30 s: " + what)
		}
	}
}

func TestNothingNotifiesWhileTheQueueIsMoreThanHalfFull(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	kind := publisher.Kind{Name: "memory", Open: func(publisher.Settings) (publisher.Sink, error) {
		return &memory.Sink{}, nil
	}}
	worker(t, pool, Options{Sinks: []publisher.Kind{kind}, Projections: []projection.Projection{notes()}})
	waiter := waiter.New(pool, nil)
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- waiter.Run(running) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	until(t, "the registration", func() bool {
		var there bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM tidemark.projections)`).Scan(&there)
		return err == nil && there
	})
	n := 0
	// live appends, now and a bit later, acts as operators do, and waits for it all.
	live := func() {
		t.Helper()
		n++
		var token string
		campaign := fmt.Sprint("oak", n)
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			appended, err := journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any, event.Event{Type: "noted"})
			if err == nil {
				token = appended[0].Token()
				_, err = journal.Journal{}.AppendAt(t.Context(), tx, campaign, time.Now(), event.Event{Type: "noted"})
			}
			batch := &pgx.Batch{}
			publications.QueueNotify(batch)
			return errors.Join(err, tx.SendBatch(t.Context(), batch).Close())
		})
		if err == nil {
			err = waiter.Wait(t.Context(), token, "notes")
		}
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the scheduled append", func() bool {
			var made bool
			err := pool.QueryRow(t.Context(), `SELECT count(*) = 2 FROM notes WHERE campaign_id = $1`, campaign).Scan(&made)
			return err == nil && made
		})
	}
	e := listen(t, pool)
	all := func() {
		heard := map[string]bool{}
		until(t, "a notification on each channel", func() bool {
			live()
			for _, channel := range e.heard() {
				heard[channel] = true
			}
			return len(heard) == 4
		})
	}
	all()
	full(t, pool, "0.51")
	until(t, "a look at the queue", func() bool {
		var may bool
		err := pool.QueryRow(t.Context(), "SELECT tidemark.may_notify()").Scan(&may)
		return err == nil && !may
	})
	e.heard()
	for range 10 {
		live()
	}
	if heard := e.heard(); len(heard) > 0 {
		t.Errorf("while the queue is more than half full, there are notifications: %v", heard)
	}
	full(t, pool, "0.5")
	all()
}

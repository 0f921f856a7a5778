package publishes

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// plainPage is the page size of the plain loops, the same as the relay's.
const plainPage = 1000

// plainly is the simplest program that copies a journal to a broker. Readers share the journal,
// whose end is known, and read it by pages or all at once. Senders convert the events to messages
// and send them. There is no position, no lease, no order and no retry. It returns the events sent
// in a second, which a relay can hardly exceed.
type plainly struct {
	readers int
	whole   bool // by one SELECT each
	start   func(ctx context.Context) (broker, error)
}

func (w plainly) String() string {
	how := "pages"
	if w.whole {
		how = "one SELECT each"
	}
	return fmt.Sprintf("a plain loop, %d readers, %s", w.readers, how)
}

func (w plainly) run(ctx context.Context, db *harness.Database) (rate float64, err error) {
	to, err := w.start(ctx)
	if err != nil {
		return 0, err
	}
	defer to.stop()
	sink, err := to.sink()
	if err != nil {
		return 0, err
	}
	pool, err := db.Pool(ctx, w.readers)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	end, err := feed.Floor(ctx, pool)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	batches := make(chan []publisher.Event, brokerConcurrency)
	group, ctx := errgroup.WithContext(ctx)
	for range brokerConcurrency {
		group.Go(func() error {
			for batch := range batches {
				if err := sink.Publish(ctx, batch); err != nil {
					return fmt.Errorf("publish: %w", err)
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(batches)
		reading, ctx := errgroup.WithContext(ctx)
		share := end / int64(w.readers)
		for i := range int64(w.readers) {
			until := (i + 1) * share
			if int(i) == w.readers-1 {
				until = end
			}
			reading.Go(func() error { return w.read(ctx, pool, i*share, until, batches) })
		}
		return reading.Wait()
	})
	if err := group.Wait(); err != nil {
		return 0, err
	}
	took := time.Since(begun).Seconds()
	var events int
	if err := pool.QueryRow(context.WithoutCancel(ctx), harness.CountJournal).Scan(&events); err != nil {
		return 0, fmt.Errorf("count events: %w", err)
	}
	return float64(events) / took, nil
}

// read sends the events after one position, up to another, to batches.
func (w plainly) read(
	ctx context.Context, pool *pgxpool.Pool, after, until int64, batches chan<- []publisher.Event,
) error {
	page := plainPage
	if w.whole {
		page = int(until - after)
	}
	for after < until {
		events, _, err := feed.ReadWindow(ctx, pool, event.Window{
			After: after, Floor: until, Events: page, Bytes: math.MaxInt64, Small: true,
		})
		if err != nil {
			return err
		}
		for from := 0; from < len(events); from += brokerBatch {
			batch := make([]publisher.Event, 0, brokerBatch)
			for _, e := range events[from:min(from+brokerBatch, len(events))] {
				batch = append(batch, publisher.Event{Event: e, Topic: "all"})
			}
			select {
			case batches <- batch:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if len(events) < page || w.whole {
			return nil
		}
		after = events[len(events)-1].Position
	}
	return nil
}

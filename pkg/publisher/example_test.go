package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// printer is a sink that prints events and refuses large ones.
type printer struct {
	to      io.Writer
	encoder publisher.Encoder
}

func (printer) Name() string { return "printer" }

func (s printer) Publish(_ context.Context, events []publisher.Event) error {
	var failures []publisher.Failure
	failed := map[string]bool{} // campaigns
	for i := range events {
		e := &events[i]
		switch {
		case failed[e.CampaignID]:
			failures = append(failures, publisher.Failure{Index: i, Err: publisher.ErrNotTried})
		case len(e.Payload) > 1000:
			failed[e.CampaignID] = true
			failures = append(failures, publisher.Failure{Index: i, Err: errors.New("too large"), Permanent: true})
		default:
			if _, err := fmt.Fprintf(s.to, "%s %d %s\n", e.CampaignID, e.Seq, s.encoder.AppendBody(nil, e)); err != nil {
				return err
			}
		}
	}
	if failures != nil {
		return &publisher.BatchError{Failures: failures}
	}
	return nil
}

// A sink of your own needs two methods.
func ExampleSink() {
	var sink publisher.Sink = printer{os.Stdout, publisher.Encoder{Format: publisher.FormatRaw}}
	err := sink.Publish(context.Background(), []publisher.Event{
		{Topic: "orders", Event: event.Event{
			ID: uuid.New(), Type: "order_placed", CampaignID: "order-7", Seq: 1,
			Payload: []byte(`{"total": 12}`),
		}},
		{Topic: "orders", Event: event.Event{
			ID: uuid.New(), Type: "order_noted", CampaignID: "order-8", Seq: 1,
			Payload: make([]byte, 2000),
		}},
	})
	fmt.Println(err)
	// Output:
	// order-7 1 {"total": 12}
	// 1 events were not published, first event 1 of the batch: too large
}

// A relay publishes until its context ends. Run any number of relays: they share the pairs of
// topics and publishers.
func ExampleRelay() {
	run := func(ctx context.Context, pool *pgxpool.Pool, sink publisher.Sink) error {
		relay, err := publisher.New(publisher.Config{
			Pool: pool,
			Topics: []publisher.Topic{{
				Name:   "orders",
				Filter: publisher.Filter{EventTypes: []string{"order_placed", "order_paid"}},
			}},
			Publishers: []publisher.Publisher{{
				Name: "shop", Sink: sink, Topics: []string{"orders"},
				Start: publisher.Start{End: true},
			}},
		})
		if err != nil {
			return err
		}
		return relay.Run(ctx)
	}
	_ = run
}

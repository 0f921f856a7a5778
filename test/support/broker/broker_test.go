package broker_test

import (
	"context"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/test/support/broker"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestTheSinkKeepsTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	publishertest.Run(t, publisher.Encoder{}, func(t *testing.T) publishertest.Target {
		server := broker.Start(t)
		server.Refuse(func(a broker.Arrival) (string, bool) {
			if a.Type == "refused" {
				return "refused", true
			}
			return "", false
		})
		sink := &broker.Sink{Addr: server.Addr(), Publisher: "out"}
		t.Cleanup(func() { _ = sink.Close() })
		return publishertest.Target{
			Sink: sink,
			Received: func(context.Context) (received []publishertest.Received, _ error) {
				for _, a := range server.Arrivals("orders", "out") {
					received = append(received, publishertest.Received{EventID: a.ID, CampaignID: a.Campaign, Body: a.Body})
				}
				return received, nil
			},
			Poison: func(e *publisher.Event) { e.Type = "refused" },
			Stop: func() func() {
				server.Down("closed for today")
				return func() { server.Down("") }
			},
		}
	})
}

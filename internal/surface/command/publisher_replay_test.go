package command

import (
	"context"
	"slices"
	"testing"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// TestReplaySendsASliceAgainInOrderWithTheSameIDs runs a worker that has the publisher.
func TestReplaySendsASliceAgainInOrderWithTheSameIDs(t *testing.T) {
	t.Parallel()
	url, sink := database(t, "published.sql"), &kept{}
	worker := admin.RunnerConfig{
		Topics:     []publisher.Topic{{Name: "orders", Filter: publisher.Filter{EventTypes: []string{"order_placed"}}}},
		Publishers: []publisher.Publisher{{Name: "archive", Sink: sink, Topics: []string{"orders"}}},
	}
	operateWith(t, url, worker)
	with := " --topic orders --by bob --reason trying"
	requireRun(t, url, "publisher replay archive oak --from 2 --dry-run"+with, cli.ExitOK,
		"This would send events 2 to 3 of oak to archive again, if they are of the topic; nothing was changed")
	requireRun(t, url, "publisher replay archive oak --from 2 --yes --wait"+with, cli.ExitOK, "is done: 2 done")
	requireRun(t, url, "publisher replay archive oak --from 1 --until 1 --yes --wait"+with, cli.ExitOK, "is done: 1 done")
	if ids := []string{
		"00000000-0000-7000-8000-000000000002",
		"00000000-0000-7000-8000-000000000003", "00000000-0000-7000-8000-000000000001",
	}; !slices.Equal(sink.ids, ids) {
		t.Errorf("%q have arrived", sink.ids)
	}
	did := publisherActs(t, url)
	if len(did) != 6 || did[0] != "operation_started orders/archive oak by bob since trying" ||
		did[1] != "replay_started orders/archive oak 2 by bob since trying (operation N)" {
		t.Errorf("the log has %q", did)
	}
}

// kept is a sink that keeps the ids of events.
type kept struct{ ids []string }

func (*kept) Name() string { return "kept" }

func (k *kept) Publish(_ context.Context, events []publisher.Event) error {
	for _, e := range events {
		k.ids = append(k.ids, e.ID.String())
	}
	return nil
}

package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// TestAThousandCampaignsEqualTheFoldOfTheJournal starts each campaign with one event, half of them
// before there is a worker. The load then adds events to hot and cold campaigns.
func TestAThousandCampaignsEqualTheFoldOfTheJournal(t *testing.T) {
	t.Parallel()
	const campaigns = 1000
	pool := pgtest.New(t)
	if err := outbox.Register(t.Context(), pool, group); err != nil {
		t.Fatal(err)
	}
	begin := func(from, to int) {
		batches := make([]journal.Batch, 0, to-from)
		for i := from; i < to; i++ {
			batches = append(batches, journal.Batch{
				CampaignID: fmt.Sprintf("campaign-%d", i),
				Events:     []event.Event{tally.Event(int64(i))},
			})
		}
		tally.AppendAll(t, pool, batches...)
	}
	begin(0, campaigns/2)
	startWorkers(t, pool.Config().ConnString(), 3)
	load := tally.Load{Pool: pool, Writers: 4, Campaigns: campaigns, Pause: time.Millisecond}.Start(t)
	begin(campaigns/2, campaigns)
	grows(t, load)
	grows(t, load)
	load.Stop(t, pool)
	tally.Settle(t, pool, group)
	if folded := tally.Verify(t, pool, ""); len(folded) != campaigns {
		t.Errorf("the journal has %d campaigns, want %d", len(folded), campaigns)
	}
}

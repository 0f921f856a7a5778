package publish_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/broker"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// TestAPoisonEventInOneOfAThousandCampaigns makes the broker refuse the second event of a campaign
// until an operator acts. Further events are appended to the campaign meanwhile.
func TestAPoisonEventInOneOfAThousandCampaigns(t *testing.T) {
	t.Parallel()
	const first, all = 1000 * 3, 1000*3 + 2
	for _, c := range []struct {
		policy  publisher.Policy
		forGood bool
		before  []int64 // arrived seqs of the campaign once the policy has acted and more was appended
		after   []int64 // arrived seqs once the broker accepts the event and the operator has retried it
		others  bool    // all other events arrive meanwhile
	}{
		{policy: publisher.ParkCampaign, before: []int64{1}, after: []int64{1, 2, 3, 4}, others: true},
		{policy: publisher.ParkCampaign, forGood: true, before: []int64{1}, after: []int64{1, 2, 3, 4}, others: true},
		{policy: publisher.ParkEvent, forGood: true, before: []int64{1, 3, 4}, after: []int64{1, 3, 4, 2}, others: true},
		{policy: publisher.Block, before: []int64{1}, after: []int64{1, 2, 3, 4}},
	} {
		t.Run(fmt.Sprintf("under_%s_refused_for_good_%t", c.policy, c.forGood), func(t *testing.T) {
			t.Parallel()
			pool, b := pgtest.New(t), broker.Start(t)
			var lifted atomic.Bool
			b.Refuse(func(a broker.Arrival) (string, bool) {
				if a.Campaign == "c0500" && a.Seq == 2 && !lifted.Load() {
					return "it is poison", c.forGood
				}
				return "", false
			})
			appendTo(t, pool, 3, campaigns(1000)...)
			run(t, quick(t, pool, b.Addr(), func(cfg *publisher.Config, p *publisher.Publisher) {
				cfg.LeaseTTL = time.Minute // no lease expires, so nothing is sent twice
				p.OnRefusal, p.Attempts, p.BackoffMax = c.policy, 3, 10*time.Millisecond
			}))
			if c.others {
				parked := func(at int) {
					t.Helper()
					tally.Eventually(t, "the event is parked and the pair goes on", tally.Holds(pool, `SELECT position >= $1
						AND status = 'ACTIVE' AND error_count = 0
						AND (SELECT array_agg(format('%s %s %s %s', k.campaign_id, k.seq, k.status, k.error_message))
							FROM tidemark.parked k) = ARRAY['c0500 2 parked it is poison']
						FROM tidemark.readers`, at))
				}
				parked(first)
				appendTo(t, pool, 1, "c0500", "c0501")
				parked(all)
			} else {
				tally.Eventually(t, "the pair has failed and says why", tally.Holds(pool, `SELECT status = 'FAILED'
					AND reason LIKE '%c0500%it is poison%' AND expires_at = '-infinity'
					AND position < (SELECT j.position FROM tidemark.journal j WHERE campaign_id = 'c0500' AND seq = 2)
						AND NOT EXISTS (SELECT FROM tidemark.parked)
					FROM tidemark.readers`))
				appendTo(t, pool, 1, "c0500", "c0501")
				beats(t, pool)
			}
			eventually(t, "what is to arrive of its campaign has", func() bool {
				return of(b, "everything", "c0500") == fmt.Sprint(c.before)
			})
			if n := b.Taken(); c.others && n != all-4+len(c.before) {
				t.Errorf("%d events have arrived", n)
			}

			lifted.Store(true)
			var err error
			if c.others {
				_, err = publications.Retry(t.Context(), pool, publications.ParkedFilter{CampaignID: "c0500"}, anna())
			} else {
				_, err = publications.Reset(t.Context(), pool, everything(), publications.ResetTo{}, anna())
			}
			if err != nil {
				t.Fatal(err)
			}
			settle(t, pool, everything())
			if got := of(b, "everything", "c0500"); got != fmt.Sprint(c.after) {
				t.Errorf("of its campaign %s has arrived", got)
			}
			if c.policy != publisher.ParkEvent { // ParkEvent gives up the order
				compare(t, pool, b, everything())
			}
			if n := distinct(b); n != all {
				t.Errorf("%d events have arrived, %d were appended", n, all)
			}
		})
	}
}

// of returns the seqs of a campaign that have arrived under a topic, without repeats.
func of(b *broker.Server, topic, campaign string) string {
	seqs, seen := []int64{}, map[int64]bool{}
	for _, a := range b.Arrivals(topic, "out") {
		if a.Campaign == campaign && !seen[a.Seq] {
			seqs, seen[a.Seq] = append(seqs, a.Seq), true
		}
	}
	return fmt.Sprint(seqs)
}

// distinct returns how many different events have arrived.
func distinct(b *broker.Server) int {
	seen := map[int64]bool{}
	for _, a := range b.Arrivals("everything", "out") {
		seen[a.Position] = true
	}
	return len(seen)
}

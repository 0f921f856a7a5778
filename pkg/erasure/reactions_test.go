package erasure_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/pkg/erasure"
)

// What is scheduled for a campaign belongs to it, whichever event a process has reacted to.
func TestAnErasedCampaignLosesWhatIsScheduledForItAndOthersKeepTheirs(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.work()
	s.order("shop1", "ann", 1)
	s.order("shop2", "bob", 2)
	const react = `SELECT tidemark.react('billing', ARRAY[NULL::text, 'billing/5:shop1/pay', NULL, 'billing/5:shop2/pay'],
		ARRAY['shop1', 'shop2', 'shop2', 'shop1'], array_fill(now() + interval '1 h', ARRAY[4]),
		array_fill('[{"type": "billed"}]'::text, ARRAY[4]), array_fill(NULL::bigint, ARRAY[4]),
		array_fill(NULL::text, ARRAY[4]))`
	for _, sql := range []string{`INSERT INTO tidemark.readers (kind, topic, publisher, position, reacts_after)
		VALUES ('projection', 'billing', '0', 0, 0)`, react, `DELETE FROM tidemark.readers WHERE topic = 'billing'`} {
		if _, err := s.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s.erase(erasure.Request{Campaign: "shop1"})
	if got := s.value(`SELECT string_agg(campaign_id || coalesce(' ' || timer, ''), ', ' ORDER BY id)
		FROM tidemark.scheduled`); got != "shop2 billing/5:shop1/pay, shop2" {
		t.Errorf("left: %s", got)
	}
}

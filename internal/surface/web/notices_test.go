package web_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/pkg/erasure"
)

// TestAStreamOfASelectionHasTheNoticesOfWhatItHad erases events before the streams begin, and while they are
// at the end of the journal. Each stream has the notices that a topic of its conditions has.
func TestAStreamOfASelectionHasTheNoticesOfWhatItHad(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	erase := func(r erasure.Request) {
		t.Helper()
		r.By, r.Reason = "anna", "a test"
		if _, err := erasure.Erase(t.Context(), s.pool, r); err != nil {
			t.Fatal(err)
		}
	}
	order := func(campaign, customer, sku string) {
		t.Helper()
		appendOne(t, s.pool, campaign, "ordered", customer, "sku="+sku)
		appendOne(t, s.pool, campaign, "settled", customer)
	}
	order("oak", "customer=ann", "1")
	for i := range 120 { // more than a page of notices
		appendOne(t, s.pool, fmt.Sprint("other", i), "ordered", "customer=eve")
	}
	erase(erasure.Request{Subjects: []string{"customer=eve"}})
	erase(erasure.Request{Subjects: []string{"customer=ann"}})
	type selection struct {
		url.Values
		want, got []string
		*following
	}
	const ordered, settled = "ordered", "settled"
	selections := []*selection{
		{Values: url.Values{"type": {ordered}, "tag": {"sku=1"}}, want: []string{"oak"}},
		{Values: url.Values{"type": {settled, ordered}, "tag": {"sku=1", "customer=ann"}}, want: []string{"oak"}},
		{Values: url.Values{"type": {settled}, "tag": {"sku=1"}}},
		{Values: url.Values{"type": {settled}, "tag": {"customer=bob"}}, want: []string{"elm"}},
		{Values: url.Values{"tag": {"sku=2"}}, want: []string{"elm"}},
		{Values: url.Values{"tag": {"sku=3"}}},
		{Values: url.Values{"type": {erasure.EventType}, "tag": {"sku=1"}}, want: []string{"oak"}},
		{Values: url.Values{"type": {"none"}}},
	}
	for _, of := range selections {
		if of.Has("type") { // the last event of each stream
			of.Add("type", "end")
		}
		of.following = s.follow(t, auth.Viewer, "/events/stream?"+of.Encode(), "")
	}
	until := func(last string) {
		t.Helper()
		appendOne(t, s.pool, last, "end", "customer=ann", "customer=bob", "sku=1", "sku=2", "sku=3")
		for _, of := range selections {
			for e := of.next(t); e.data.CampaignID != last; e = of.next(t) {
				if e.data.Type == erasure.EventType {
					of.got = append(of.got, e.data.CampaignID)
				} else if e.data.CampaignID != "elm" { // before it was erased
					t.Errorf("%s: the stream has %+v", of.Encode(), e.data)
				}
			}
		}
	}
	until("first")
	order("elm", "customer=bob", "2")
	erase(erasure.Request{Campaign: "elm"})
	until("second")
	for _, of := range selections {
		if !slices.Equal(of.got, of.want) {
			t.Errorf("%s: the stream has the notices of %v, want %v", of.Encode(), of.got, of.want)
		}
	}
}

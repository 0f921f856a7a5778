package pages

import (
	"net/http"
	"strings"

	"github.com/tidemark-go/tidemark/internal/status"
)

// menuItem is a line of the menu.
type menuItem struct {
	Path, Name string
	Here       bool
	Count      string // beside the name; "": nothing
	About      string // what Count counts, for those who hear the page
	Bad        bool
}

// menu answers the pages in the order in which a person on call needs them.
func (p *Pages) menu(r *http.Request) []menuItem {
	items := []menuItem{
		{Path: "/", Name: "Overview"},
		{Path: "/campaigns", Name: "Campaigns"},
		{Path: "/failed", Name: "Failed"},
		{Path: "/parked", Name: "Parked"},
		{Path: "/operations", Name: "Operations"},
		{Path: "/projections", Name: "Projections"},
		{Path: "/publishers", Name: "Publishers"},
		{Path: "/workers", Name: "Workers"},
		{Path: "/audit", Name: "Audit"},
		{Path: "/settings", Name: "Settings"},
	}
	section := "/" + strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 2)[0]
	switch section {
	case "/campaign", "/event":
		section = "/campaigns"
	case "/operation", "/act":
		section = "/operations"
	}
	badges := badgesOf(p.history.last.Load())
	for i := range items {
		items[i].Here = items[i].Path == section
		if b := badges[items[i].Path]; b.n > 0 {
			items[i].Count, items[i].About, items[i].Bad = count(b.n), b.about, b.bad
		}
	}
	return items
}

// badge is what the menu counts beside a page.
type badge struct {
	n     int64
	about string
	bad   bool
}

// badgesOf answers what there is to look at, by page, as it was at the last look: a page costs nothing for its menu.
func badgesOf(s *status.Status) map[string]badge {
	if s == nil {
		return nil
	}
	deferred, parked := badge{about: "dead", bad: true}, badge{about: "parked", bad: true}
	for _, q := range s.Queue {
		deferred.n += q.Dead
	}
	failing, paused := badge{about: "failing", bad: true}, badge{about: "paused"}
	for _, pub := range s.Publishers {
		parked.n += pub.Parked
		switch {
		case pub.Status == "PAUSED":
			paused.n++
		case pub.Status == "FAILED" || pub.Errors > 0:
			failing.n++
		}
	}
	campaigns, projections := badge{about: "paused"}, badge{about: "paused"}
	for _, pa := range s.Pauses {
		if pa.CampaignID != "" {
			campaigns.n++
		} else {
			projections.n++
		}
	}
	if failing.n == 0 {
		failing = paused
	}
	return map[string]badge{
		"/failed": deferred, "/parked": parked, "/publishers": failing, "/campaigns": campaigns, "/projections": projections,
	}
}

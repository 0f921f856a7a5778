package publisher_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

func TestATopicHasTheEventsThatMeetAllItsConditions(t *testing.T) {
	t.Parallel()
	e := &event.Event{
		Type: "paid", CampaignID: "shop-7", Tags: []string{"eu", "customer=7", "channel=web"},
		Intent: event.AuditOnly,
	}
	for _, test := range []struct {
		name   string
		filter publisher.Filter
		want   bool
	}{
		{"none", publisher.Filter{}, true},
		{"type", publisher.Filter{EventTypes: []string{"placed", "paid"}}, true},
		{"other type", publisher.Filter{EventTypes: []string{"placed"}}, false},
		{"prefix", publisher.Filter{CampaignPrefix: "shop-"}, true},
		{"other prefix", publisher.Filter{CampaignPrefix: "shop-8"}, false},
		{"a prefix of what comes later", publisher.Filter{CampaignPrefix: "hop-"}, false},
		{"intent", publisher.Filter{Intents: []event.Intent{event.AuditOnly}}, true},
		{"other intent", publisher.Filter{Intents: []event.Intent{event.ReplayOnly}}, false},
		{"required, by key and by value", publisher.Filter{RequiredTags: []string{"eu", "customer", "channel=web"}}, true},
		{"required, one missing", publisher.Filter{RequiredTags: []string{"eu", "us"}}, false},
		{"required, another value", publisher.Filter{RequiredTags: []string{"customer=8"}}, false},
		{"required, a part of a key", publisher.Filter{RequiredTags: []string{"custom"}}, false},
		{"any of", publisher.Filter{AnyOfTags: []string{"us", "customer"}}, true},
		{"any of, none there", publisher.Filter{AnyOfTags: []string{"us", "customer=8"}}, false},
		{"one of two conditions", publisher.Filter{EventTypes: []string{"paid"}, AnyOfTags: []string{"us"}}, false},
	} {
		if got := test.filter.Match(e); got != test.want {
			t.Errorf("%s: got %t", test.name, got)
		}
	}
}

package publisher_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestANoticeGoesWhereTheErasedEventsWent has a topic for each kind of condition, met and not met.
func TestANoticeGoesWhereTheErasedEventsWent(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const notice = "events_erased"
	filters := map[string]publisher.Filter{
		"yes all":                {},
		"yes type":               {EventTypes: []string{"x", "ordered"}},
		"yes alias":              {EventTypes: []string{"paid"}},
		"no type":                {EventTypes: []string{"shipped"}},
		"yes prefix":             {CampaignPrefix: "shop"},
		"no prefix":              {CampaignPrefix: "bank"},
		"yes intent":             {Intents: []event.Intent{event.ReplayOnly}},
		"no intent":              {Intents: []event.Intent{event.AuditOnly}},
		"yes tag":                {RequiredTags: []string{"customer=ann"}},
		"yes key":                {AnyOfTags: []string{"color", "customer"}},
		"yes both tags":          {RequiredTags: []string{"customer", "sku=tea"}},
		"no tag":                 {AnyOfTags: []string{"customer=bob"}},
		"no tag with it":         {RequiredTags: []string{"customer=ann", "sku=milk"}},
		"no tag of this type":    {EventTypes: []string{"paid"}, AnyOfTags: []string{"sku"}},
		"yes named":              {EventTypes: []string{notice}, RequiredTags: []string{"sku"}},
		"no named of another":    {EventTypes: []string{notice}, CampaignPrefix: "bank"},
		"no type and yes prefix": {EventTypes: []string{"shipped"}, CampaignPrefix: "shop"},
	}
	types, err := catalogue.New(catalogue.EventType{Name: "paid", Aliases: []string{"settled"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.AppendAll(t.Context(), tx,
			journal.Batch{CampaignID: "shop", Events: []event.Event{
				{
					Type: "ordered", Tags: []string{"customer=ann", "sku=tea"}, Intent: event.ReplayOnly,
					Payload: []byte(`{"who": "ann"}`),
				},
				{Type: "settled", Tags: []string{"customer=ann"}, Payload: []byte(`{"who": "ann"}`)},
			}},
			journal.Batch{CampaignID: "bank", Events: []event.Event{{Type: "ordered", Tags: []string{"customer=bob", "sku=milk"}}}},
		)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	who, err := catalogue.New(
		catalogue.EventType{Name: "ordered", Subject: []string{"who"}, Personal: []string{"who"}},
		catalogue.EventType{Name: "settled", Subject: []string{"who"}, Personal: []string{"who"}})
	if err != nil {
		t.Fatal(err)
	}
	erase := func(r erasure.Request) {
		t.Helper()
		r.By, r.Reason = "anna", "a test"
		if _, err := erasure.Erase(t.Context(), pool, r); err != nil {
			t.Fatal(err)
		}
	}
	erase(erasure.Request{Subjects: []string{"ann"}, Personal: true, Catalogue: who}) // takes the tag
	erase(erasure.Request{Campaign: "shop"})
	// A row of the journal that looks like a notice, and is none.
	mustExec(t, pool, `INSERT INTO tidemark.journal (seq, position, recorded_at, occurred_at, event_id, payload_bytes, event_version,
		intent, campaign_id, event_type, payload) VALUES (9, nextval('tidemark.journal_position'), now(), now(), gen_random_uuid(), 2, 1,
		'audit_only', 'shop', 'events_erased', '{"erasure": 1, "seqs": [1]}')`)
	appendTo(t, pool, 1, "end")

	sink := &memory.Sink{}
	cfg := quick(pool, sink, func(c *publisher.Config, p *publisher.Publisher) {
		c.Topics, p.Topics, c.Catalogue = nil, nil, types
		for name, filter := range filters {
			c.Topics = append(c.Topics, publisher.Topic{Name: name, Filter: filter})
			p.Topics = append(p.Topics, name)
		}
	})
	stop := start(t, cfg)
	last := query[int64](t, pool, `SELECT max(position) FROM tidemark.journal`)
	eventually(t, "all topics are at the end", func() bool {
		return query[int64](t, pool, `SELECT count(*) FROM tidemark.readers WHERE position >= $1`, last) == int64(len(filters))
	})
	stop()
	mustExec(t, pool, `UPDATE tidemark.readers SET position = 0`)
	pairs, err := publications.List(t.Context(), pool, publications.Key{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		sent := int64(0)
		for _, r := range sink.Received() {
			if r.Topic == p.Topic {
				sent++
			}
		}
		if p.Behind != sent || (p.Lag > 0) != (sent > 0) || p.Estimated {
			t.Errorf("%s: the lag from the start is %d events, %s; %d were sent", p.Topic, p.Behind, p.Lag, sent)
		}
	}
	got := map[string][]int64{}
	for _, r := range sink.Received() {
		if r.CampaignID == "shop" && r.Seq > 2 {
			got[r.Topic] = append(got[r.Topic], r.Seq)
		}
	}
	for name, filter := range filters {
		var want []int64
		if strings.HasPrefix(name, "yes") {
			want = []int64{3, 4} // of the personal fields, and of the campaign
		}
		if name == "yes all" || name == "yes prefix" || name == "no intent" {
			want = append(want, 9) // it is an event like others
		}
		if !slices.Equal(got[name], want) {
			t.Errorf("%s: the topic has got %v, want %v", name, got[name], want)
		}
		seqs := []int64{}
		to := publisher.Publisher{Name: "again", Sink: &memory.Sink{OnPublish: func(_ context.Context, events []publisher.Event) error {
			for i := range events {
				seqs = append(seqs, events[i].Seq)
			}
			return nil
		}}}
		r := publisher.ReplayRequest{
			Topic: publisher.Topic{Name: name, Filter: filter}, To: to, CampaignID: "shop", From: 3, Catalogue: types, By: "anna",
		}
		if _, err := publisher.Replay(t.Context(), pool, r); err != nil {
			t.Error(err)
		}
		if fmt.Sprint(seqs) != fmt.Sprint(want) {
			t.Errorf("%s: a replay has sent %v, want %v", name, seqs, want)
		}
	}
}

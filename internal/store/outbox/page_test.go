package outbox_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestPagesHaveEveryEntryOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.consumer_groups (name) VALUES ('g'), ('h');
		SELECT tidemark.append('c' || i % 5, '[{"type": "noted"}]') FROM generate_series(1, 20) i;
		INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
			VALUES ('g', 'c1', 'w', 1, now() + interval '1 hour', 0), ('g', 'c2', 'paused', 1, now() + interval '1 hour', 0);
		INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, next_attempt_at,
			error_message, first_failed_at)
		SELECT 'c' || i, p, 'g', 1, CASE p WHEN 'p' THEN 'dead' ELSE 'failed' END, now(), 'no', now()
			FROM generate_series(0, 4) i, unnest('{p,q}'::text[]) p`); err != nil {
		t.Fatal(err)
	}
	all, err := outbox.List(t.Context(), pool, outbox.Filter{Limit: 1000})
	if err != nil || len(all) != 50 {
		t.Fatalf("there are %d entries, %v, want 20 work items of each group and 10 pairs", len(all), err)
	}
	for _, f := range []outbox.Filter{
		{},
		{CampaignID: "c2"},
		{CampaignID: "nowhere"},
		{Status: outbox.Processing},
		{Status: outbox.Paused},
		{Status: outbox.Pending},
		{Status: outbox.Dead},
		{Status: outbox.Failed, CampaignID: "c3"},
		{Status: outbox.CatchingUp},
		{Status: outbox.Pending, CampaignID: "c0"},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(e outbox.Entry) bool {
			return f.CampaignID != "" && e.CampaignID != f.CampaignID || f.Status != "" && e.Status != f.Status
		})
		for _, f.Limit = range []int{1, 3, 1000} {
			var got []outbox.Entry
			var after *outbox.Place
			for pages := 0; ; pages++ {
				some, next, err := outbox.Page(t.Context(), pool, f, after)
				if err != nil || len(some) > f.Limit || pages > 100 {
					t.Fatalf("%+v: page %d has %d entries, %v", f, pages, len(some), err)
				}
				got = append(got, some...)
				if after = next; next == nil {
					break
				}
			}
			if !slices.Equal(texts(got), texts(want)) {
				t.Errorf("%+v: the pages have\n%q, the list\n%q", f, texts(got), texts(want))
			}
		}
	}
}

// texts returns the entries as sorted text.
func texts(entries []outbox.Entry) (all []string) {
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%+v", e))
	}
	slices.Sort(all)
	return all
}

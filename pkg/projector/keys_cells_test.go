package projector_test

import (
	"fmt"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// A group takes an event for all of its keys, though it is full with the first: live, and where keys are behind.
func (c *keysCell) meetsSmallGroups() {
	c.group = 1
	c.play()
	drain(c.T, c.stock())
	c.expect("event by event", "stock", 1)
	c.order("shop1", purchase{Lines: map[string]int{"tea": 1, "cups": 2, "pots": 3, "p0": 4, "p1": 5}})
	drain(c.T, c.stock())
	c.together("cups", "p0", "p1", "pots", "tea")
	for _, article := range []string{"tea", "cups", "pots", "p1"} {
		c.must(c.replay("stock", article))
	}
	c.spoil("tea")
	c.spoil("pots")
	drain(c.T, c.stock())
	c.held("")
	if c.scope == projection.ScopeJournal {
		c.expect("keys that were behind, event by event", "stock", 1)
		c.together("cups", "p1", "pots", "tea")
	}
}

// together expects that one transaction has written the documents of a partition last.
func (c *keysCell) together(articles ...string) {
	c.Helper()
	for part := range 2 {
		some := slices.DeleteFunc(slices.Clone(articles), func(article string) bool {
			return apply.PartitionOf(article, 2) != part
		})
		if c.scope != projection.ScopeJournal {
			some = articles
		}
		if len(some) < 2 {
			c.Fatalf("partition %d has %q of the articles", part, some)
		}
		condition := "key"
		if c.scope != projection.ScopeJournal {
			condition = "campaign_id = 'shop1' AND key"
		}
		if n := query[int](c.T, c.pool, `SELECT count(DISTINCT xmin::text) FROM tidemark_views.stock WHERE `+condition+` = ANY ($1)`,
			some); n != 1 {
			c.Errorf("%d transactions have written %q", n, some)
		}
	}
}

// policed returns a version of the document with a policy.
func (c *keysCell) policed(version int, policy projection.Policy) projection.Projection {
	d := c.shelves("stock", version)
	d.OnFailure = policy
	return d
}

// A policy skips the event for the key that fails, also where it is applied beside the live tables.
func (c *keysCell) meetsSkips() {
	skips := slow(projection.ActionSkip)
	c.refuses.Store(true)
	c.play()
	p := c.worker(c.policed(1, skips))
	drain(c.T, p)
	c.held("")
	kept := func(key string, at int64) bool {
		if c.scope == projection.ScopeJournal {
			return at != c.at || key == "cups"
		}
		return key != c.campaign || at != c.seq
	}
	c.same("skipped", c.rows("stock"), c.fold(1, kept))
	expectVerified(c.T, p, lookback.VerifyRequest{Projection: "stock", All: true})
	of, at := c.failure("stock", "tea")
	state, err := p.AsOf(c.Context(), "stock", of.CampaignID, at)
	c.must(err)
	c.same("as of the event", c.documents(state), c.fold(1, func(key string, n int64) bool {
		return kept(key, n) && key == of.CampaignID && n <= at
	}))
	r := lookback.WhyRequest{Projection: "stock", Seq: c.at}
	if c.scope != projection.ScopeJournal {
		r.CampaignID, r.Seq = c.campaign, c.seq
	}
	for article, changed := range map[string]bool{"tea": false, "cups": c.scope == projection.ScopeJournal} {
		r.Key = []string{article}
		why, err := p.Why(c.Context(), r)
		c.must(err)
		is := slices.ContainsFunc(why.Causes, func(cause lookback.Cause) bool { return cause.Event.Position == c.at })
		if is != changed {
			c.Errorf("the document of %s is from %+v, the skipped event is %d", article, why.Causes, c.at)
		}
	}
	c.startRebuild()
	for range 3 {
		drain(c.T, c.worker(c.policed(1, skips), c.policed(2, skips)))
	}
	c.same("skipped and rebuilt", c.rows("stock"), c.fold(2, kept))
}

// A policy pauses the projection for all keys.
func (c *keysCell) meetsPause() {
	pauses := slow(projection.ActionPause)
	c.refuses.Store(true)
	c.play()
	p := c.worker(c.policed(1, pauses))
	drain(c.T, p)
	if n := query[int](c.T, c.pool, `SELECT count(*) FROM tidemark.pauses WHERE name = 'stock'`); n != 1 {
		c.Errorf("%d pauses", n)
	}
	c.refuses.Store(false)
	exec(c.T, c.pool, `DELETE FROM tidemark.pauses`)
	retry(c.T, c.pool, p)
	c.held("")
	c.expect("resumed", "stock", 1)
}

// An event that takes too long fails for all of its keys, which are then tried one by one.
func (c *keysCell) meetsDeadline() {
	quick := make(chan struct{})
	d := c.shelves("stock", 1)
	d.On = event.Folds[shelf]{
		event.OnKey(purchased, func(s *shelf, article string, e event.Event, p purchase) error {
			if p.Lines[article] == rejected && article == "tea" {
				<-quick
			}
			s.sell(e, p.Lines[article])
			return nil
		}),
	}
	d.Partitions = 1
	polling(c.T, c.pool, func(cfg *projector.Config) {
		cfg.ApplyTimeout, cfg.GroupEvents, cfg.OnFailure = 200*time.Millisecond, 8, projection.Policy{}
	}, d)
	c.play()
	within(c.T, "the other keys go on", func() bool {
		return query[string](c.T, c.pool, `SELECT coalesce(string_agg(campaign_id || ' ' || error_code, ', '), '')
			FROM tidemark.failed`) == "tea deadline" && query[int64](c.T, c.pool, `SELECT min(position) FROM tidemark.readers`) >=
			query[int64](c.T, c.pool, `SELECT max(position) FROM tidemark.journal`)
	})
	c.expect("one key is too slow", "stock", 1)
	expectText(c.T, c.pool, "failures", "cups pots tea", `SELECT string_agg(DISTINCT campaign_id, ' ') FROM tidemark.failure_log
		WHERE error_code = 'deadline'`)
	close(quick)
	within(c.T, "the key catches up", func() bool { return query[int](c.T, c.pool, `SELECT count(*) FROM tidemark.failed`) == 0 })
	c.expect("none is", "stock", 1)
}

// Archived events are applied again for each key.
func (c *keysCell) meetsArchive() {
	store, err := archive.NewFolder(c.TempDir())
	c.must(err)
	c.Cleanup(func() { _ = store.Close() })
	c.archive = archive.NewReader(store, 0)
	c.play()
	drain(c.T, c.stock())
	report, err := archive.Run(c.Context(), c.pool, store, archive.Request{
		Campaigns: []string{"shop0", "shop1"}, By: "ada", Reason: "a test",
	})
	if c.must(err); report.Campaigns != 2 {
		c.Fatalf("%+v", report)
	}
	c.order("shop2", purchase{Lines: map[string]int{"tea": 1, "cups": 2}})
	drain(c.T, c.stock())
	c.expect("archived", "stock", 1)
	c.campaign = "shop1"
	for _, article := range []string{"tea", "pots"} {
		c.spoil(article)
		c.must(c.replay("stock", article))
	}
	c.replayOthers()
	drain(c.T, c.stock())
	c.expect("archived and replayed", "stock", 1)
	expectVerified(c.T, c.stock(), lookback.VerifyRequest{Projection: "stock", All: true})
	c.rebuilt()
	c.expect("archived and rebuilt", "stock", 2)
}

// purchaseCatalogue seals notes.
func purchaseCatalogue(c *keysCell) *catalogue.Catalogue {
	c.Helper()
	types, err := yamlfile.Load(fstest.MapFS{"c.yaml": {Data: []byte(`types:
  purchased:
    subject: [customer]
    personal: [note]
`)}}, "c.yaml")
	c.must(err)
	wrappers, err := catalogue.ParseWrappingKeys("a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	c.must(err)
	sealer, err := catalogue.NewSealer(wrappers...)
	c.must(err)
	return types.Sealed(sealer)
}

// A sealed field that does not open holds back the keys of its event, unless it may hold keys itself: then all.
func (c *keysCell) meetsSealed() {
	c.types = purchaseCatalogue(c)
	c.order("shop0", purchase{Lines: map[string]int{"tea": 1, "cups": 2}, Customer: "ann", Note: []byte(`"quick"`)})
	id, e := broken(c.T, c.pool, "a wrapping key of nobody")
	e.Type, e.Version = string(purchased), 1
	e.Payload = []byte(strings.Replace(string(e.Payload), `"mail"`, `"lines": {"tea": 3, "pots": 1}, "note"`, 1))
	appendEvents(c.T, c.pool, "shop1", e)
	c.campaign = "shop1"
	c.order("shop2", purchase{Lines: map[string]int{"tea": 5, "p1": 1}, Customer: "bob", Note: []byte(`"slow"`)})
	noted := c.shelves("noted", 1)
	noted.Keys = func(e event.Event) ([]string, error) {
		keys, err := articlesOf(e)
		if p, err := purchased.Decode(e); err == nil && string(p.Note) == `"quick"` {
			keys = append(keys, "quick")
		} else if err == nil && len(p.Note) > 0 {
			keys = append(keys, "noted")
		}
		return keys, err
	}
	p := c.worker(c.shelves("stock", 1), noted)
	drain(c.T, p)
	held := map[projection.Scope]string{
		projection.ScopeCampaign: "noted shop1, stock shop1", projection.ScopeJournal: "noted -, stock pots, stock tea",
	}
	expectText(c.T, c.pool, "held back", held[c.scope], `SELECT string_agg(projection || ' ' || campaign_id, ', ' ORDER BY
		projection, campaign_id) FROM tidemark.failed`)
	expectText(c.T, c.pool, "they wait", "failed wrapping_key 0", waitsForKey)
	c.expect("it waits for a wrapping key", "stock", 1)
	exec(c.T, c.pool, `DELETE FROM tidemark.keys WHERE id = '`+id+`'`)
	exec(c.T, c.pool, `SELECT nextval('tidemark.erased')`)
	recovers(c.T, c.pool, p)
	c.expect("the key is gone", "stock", 1)
	keys := map[projection.Scope]int{projection.ScopeCampaign: 8, projection.ScopeJournal: 6}
	if n := len(c.rows("noted")); n != keys[c.scope] {
		c.Errorf("%d documents by note, want %d: %s", n, keys[c.scope], fmt.Sprint(c.rows("noted")))
	}
}

package projector_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	tables "github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// purchase is an event of several articles.
type purchase struct {
	Lines    map[string]int `json:"lines,omitempty"` // amounts by article
	Customer string         `json:"customer,omitempty"`

	Note json.RawMessage `json:"note,omitempty"` // a text, which may be sealed
}

const purchased event.Type[purchase] = "purchased"

// shelf is the document of an article. It depends on the order of the events.
type shelf struct {
	Left   int    `json:"left"`
	Latest string `json:"latest"`
}

func (s *shelf) sell(e event.Event, amount int) {
	s.Left -= amount
	one := fmt.Sprint(e.CampaignID, " ", amount, "; ")
	s.Latest = (one + s.Latest)[:min(48, len(one)+len(s.Latest))]
}

// keysCell is a database whose events are of several articles, and documents of these.
type keysCell struct {
	*testing.T
	pool    *pgxpool.Pool
	scope   projection.Scope
	refuses atomic.Bool // tea and pots, where an order takes rejected of them
	types   *catalogue.Catalogue
	archive event.Archive
	group   int // most events of a group

	campaign string // of the order that is refused
	at, seq  int64  // its position and seq
}

func newKeysCell(t *testing.T, scope projection.Scope) *keysCell {
	t.Helper()
	return &keysCell{T: t, pool: pgtest.New(t), scope: scope}
}

// articlesOf returns the articles of an event, sorted.
func articlesOf(e event.Event) ([]string, error) {
	p, err := purchased.Decode(e)
	return slices.Sorted(maps.Keys(p.Lines)), err
}

// shelves returns a version of a document for each article.
func (c *keysCell) shelves(name string, version int) projection.Document[shelf] {
	d := projection.Document[shelf]{
		Name: name, Version: version, Scope: c.scope, Keys: articlesOf,
		On: event.Folds[shelf]{
			event.OnKey(purchased, func(s *shelf, article string, e event.Event, p purchase) error {
				s.sell(e, version*p.Lines[article])
				if p.Lines[article] == rejected && article != "cups" && c.refuses.Load() {
					return errRefused
				}
				return nil
			}),
		},
	}
	if c.scope == projection.ScopeJournal {
		d.Partitions = 2
	}
	return d
}

func (c *keysCell) worker(projections ...projection.Projection) *projector.Projector {
	return workerOf(c.T, c.pool, func(cfg *projector.Config) {
		cfg.GroupEvents, cfg.LeaseTTL, cfg.ManualRebuilds = cmp.Or(c.group, 7), 2*time.Second, true
		cfg.Catalogue, cfg.Archive = c.types, c.archive
	}, projections...)
}

// stock is a worker with version 1 of the document.
func (c *keysCell) stock() *projector.Projector { return c.worker(c.shelves("stock", 1)) }

func (c *keysCell) order(campaign string, p purchase) journal.Appended {
	c.Helper()
	e := purchased.New(p)
	var appended []journal.Appended
	c.must(pgx.BeginFunc(c.Context(), c.pool, func(tx pgx.Tx) (err error) {
		appended, err = journal.Journal{Catalogue: c.types}.Append(c.Context(), tx, campaign, journal.Any, e)
		return err
	}))
	return appended[0]
}

// sell appends orders of one to three articles to three campaigns.
func (c *keysCell) sell() {
	for i := range 9 {
		lines := map[string]int{fmt.Sprint("p", i%4): i + 1}
		if i%2 == 0 {
			lines["tea"] = i + 2
		}
		if i%3 == 0 {
			lines["cups"] = 1
		}
		c.order(fmt.Sprint("shop", i%3), purchase{Lines: lines, Customer: fmt.Sprint("customer", i%2)})
	}
}

// play appends orders, and among them the one that is refused.
func (c *keysCell) play() {
	c.sell()
	refused := c.order("shop1", purchase{Lines: map[string]int{"tea": rejected, "pots": rejected, "cups": rejected}, Customer: "customer0"})
	c.campaign, c.at, c.seq = "shop1", refused.Position, refused.Seq
	c.sell()
}

func (c *keysCell) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *keysCell) within(do func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(c.Context(), c.pool, do)
}

// failure is what is held back, and where.
func (c *keysCell) failure(name, article string) (key failed.Key, at int64) {
	if c.scope == projection.ScopeJournal {
		return failed.Key{Projection: name, CampaignID: article}, c.at
	}
	return failed.Key{Projection: name, CampaignID: c.campaign}, c.seq
}

func (c *keysCell) requeue(name, article string) error {
	key, _ := c.failure(name, article)
	return c.within(func(tx pgx.Tx) error { return failed.Requeue(c.Context(), tx, key, byAda()) })
}

func (c *keysCell) resolve(name, article string) error {
	key, at := c.failure(name, article)
	return c.within(func(tx pgx.Tx) error { return failed.Resolve(c.Context(), tx, key, at, byAda()) })
}

func (c *keysCell) unresolve(name, article string) error {
	key, at := c.failure(name, article)
	return c.within(func(tx pgx.Tx) error { return failed.Unresolve(c.Context(), tx, key, at, byAda()) })
}

func (c *keysCell) replay(name, article string) error {
	key, _ := c.failure(name, article)
	return c.within(func(tx pgx.Tx) error {
		r := failed.ReplayRequest{Group: "default", Projection: name, Campaigns: []string{key.CampaignID}}
		_, err := failed.Replay(c.Context(), tx, r, byAda())
		return err
	})
}

// shelfID names a document.
type shelfID struct{ Campaign, Key string }

// of returns the document of an article that an event changes.
func (c *keysCell) of(e event.Event, article string) shelfID {
	if c.scope == projection.ScopeJournal {
		return shelfID{Key: article}
	}
	return shelfID{e.CampaignID, article}
}

// each visits the orders of the journal.
func (c *keysCell) each(visit func(e event.Event, p purchase)) {
	c.Helper()
	for e, err := range journal.ReadAll(c.Context(), feed.Through{Querier: c.pool, Archive: c.archive}, 0) {
		c.must(err)
		if e.Type == string(purchased) {
			p, err := purchased.Decode(e)
			c.must(err)
			visit(e, p)
		}
	}
}

// fold folds the articles of the journal's orders that are chosen, by the key or campaign, and its place there.
func (c *keysCell) fold(version int, chosen func(key string, at int64) bool) map[shelfID]shelf {
	c.Helper()
	all := map[shelfID]shelf{}
	c.each(func(e event.Event, p purchase) {
		for article, amount := range p.Lines {
			key, at := article, e.Position
			if c.scope != projection.ScopeJournal {
				key, at = e.CampaignID, e.Seq
			}
			if chosen(key, at) {
				doc := all[c.of(e, article)]
				doc.sell(e, version*amount)
				all[c.of(e, article)] = doc
			}
		}
	})
	return all
}

// folded folds the journal, for a set of tables, without what is held back and what is resolved.
func (c *keysCell) folded(set string, version int) map[shelfID]shelf {
	c.Helper()
	base, _ := tables.Split(set)
	held := pairsOf[int64](c.T, c.pool, `SELECT campaign_id, next_seq FROM tidemark.failed WHERE projection = $1`, set)
	resolved := pairsOf[int64](c.T, c.pool, `SELECT campaign_id || ' ' || seq, seq FROM tidemark.resolutions WHERE projection = $1`, base)
	return c.fold(version, func(key string, at int64) bool {
		from, behind := held[key]
		_, out := resolved[fmt.Sprint(key, " ", at)]
		return !out && (!behind || at < from)
	})
}

// asOf folds the journal for a key or campaign, up to a place.
func (c *keysCell) asOf(of string, until int64) map[shelfID]shelf {
	c.Helper()
	return c.fold(1, func(key string, at int64) bool { return key == of && at <= until })
}

// rows reads the documents of a set of tables.
func (c *keysCell) rows(set string) map[shelfID]shelf {
	c.Helper()
	name, which := tables.Split(set)
	columns := "campaign_id, key, doc"
	if c.scope == projection.ScopeJournal {
		columns = "'', key, doc"
	}
	found, err := c.pool.Query(c.Context(), fmt.Sprintf(`SELECT %s FROM %s`, columns,
		pgx.Identifier{which.Schema(name, "tidemark_views"), name}.Sanitize()))
	c.must(err)
	all := map[shelfID]shelf{}
	var id shelfID
	var raw []byte
	_, err = pgx.ForEachRow(found, []any{&id.Campaign, &id.Key, &raw}, func() error {
		var doc shelf
		err := json.Unmarshal(raw, &doc)
		all[id] = doc
		return err
	})
	c.must(err)
	return all
}

// expect compares a set of tables with the fold of the journal.
func (c *keysCell) expect(what, set string, version int) {
	c.Helper()
	c.same(what, c.rows(set), c.folded(set, version))
}

func (c *keysCell) same(what string, got, want map[shelfID]shelf) {
	c.Helper()
	for id := range want {
		if got[id] != want[id] {
			c.Errorf("%s: %v is %+v, want %+v", what, id, got[id], want[id])
		}
	}
	for id := range got {
		if _, there := want[id]; !there {
			c.Errorf("%s: there is %v, %+v", what, id, got[id])
		}
	}
}

// held returns the campaigns or keys that are behind.
func (c *keysCell) held(want string) {
	c.Helper()
	if c.scope != projection.ScopeJournal && want != "" {
		want = c.campaign // as a whole
	}
	expectText(c.T, c.pool, "held back", want, `SELECT string_agg(campaign_id, ' ' ORDER BY campaign_id)
		FROM tidemark.failed WHERE projection NOT LIKE '%~%'`)
}

// spoil gives the document of an article a wrong content.
func (c *keysCell) spoil(article string) {
	exec(c.T, c.pool, `UPDATE tidemark_views.stock SET doc = '{"left": 999}' WHERE key = $1`, article)
}

func TestAnEventOfSeveralKeysChangesEachOfItsDocumentsByItsPart(t *testing.T) {
	t.Parallel()
	for _, scope := range keysScopes() {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			c := newKeysCell(t, scope)
			c.play()
			drain(t, c.stock())
			c.expect("from the first event", "stock", 1)
			c.play()
			drain(t, c.stock())
			c.expect("live", "stock", 1)
			d := c.shelves("stock", 1)
			doc, found, err := d.GetKey(t.Context(), c.pool, "shop1", "tea")
			if scope == projection.ScopeJournal {
				doc, found, err = d.Get(t.Context(), c.pool, "tea")
			}
			if want := c.folded("stock", 1)[c.of(event.Event{CampaignID: "shop1"}, "tea")]; err != nil || !found || doc != want {
				t.Errorf("tea is %+v, %v, %v, want %+v", doc, found, err, want)
			}
		})
	}
}

// Keys that cannot be used fail their event. The error is stored without values of the event.
func TestKeysThatCannotBeUsedHoldBackTheirEvent(t *testing.T) {
	t.Parallel()
	for _, scope := range keysScopes() {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			c := newKeysCell(t, scope)
			var twice atomic.Bool
			twice.Store(true)
			d := c.shelves("stock", 1)
			d.Keys = func(e event.Event) ([]string, error) {
				keys, err := articlesOf(e)
				if p, err := purchased.Decode(e); err == nil && slices.Contains(keys, "pots") && twice.Load() {
					keys = append(keys, p.Customer, p.Customer)
				}
				return keys, err
			}
			c.play()
			p := c.worker(d)
			drain(t, p)
			key, at := c.failure("stock", "-")
			expectPairs(t, c.pool, fmt.Sprintf("%s stock %d dead 1 permanent error never", key.CampaignID, at))
			expectText(t, c.pool, "the error", `the Keys of projection stock: the key "…" is there twice: return each key once, `+
				`as slices.Compact of sorted keys does`, `SELECT error_message FROM tidemark.failed`)
			twice.Store(false)
			c.must(c.requeue("stock", "-"))
			drain(t, p)
			c.held("")
			c.expect("once they are mended", "stock", 1)
		})
	}
}

// embedding is a struct of a user.
type embedding struct{ projection.Document[shelf] }

// A document is refused by name before the first event if it cannot work.
func TestADocumentWithKeysThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	c := newKeysCell(t, projection.ScopeCampaign)
	both := c.shelves("both", 1)
	both.Key = func(event.Event) (string, error) { return "", nil }
	across := c.shelves("across", 1)
	across.Scope = projection.ScopeJournal
	ahead := across
	ahead.Name, ahead.Partitions = "ahead", 65
	for want, p := range map[string]projection.Projection{
		"projection both has Key and Keys: leave one": both,
		"projection across is of the type projector_test.embedding, with the Keys of a document across campaigns: its own code " +
			"would get an event once for each key, so register the document itself": embedding{across},
		"projection across is of the type *projector_test.embedding, with the Keys of a document across campaigns: its own code " +
			"would get an event once for each key, so register the document itself": &embedding{across},
		"projection ahead has 65 partitions: use 1 to 64": ahead,
	} {
		if _, err := projector.New(projector.Config{Pool: c.pool, Projections: []projection.Projection{p}}); err == nil ||
			err.Error() != "projector: "+want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// The transactions that append may apply.
func TestAnEventOfSeveralKeysIsAppliedInline(t *testing.T) {
	t.Parallel()
	c := newKeysCell(t, projection.ScopeCampaign)
	c.sell()
	p := c.worker(c.shelves("stock", 1))
	registered(t, p)
	c.must(c.within(func(tx pgx.Tx) error {
		lines := map[string]int{"tea": 4, "cups": 5, "pots": 6}
		appended, err := journal.Journal{}.Append(t.Context(), tx, "shop1", journal.Any, purchased.New(purchase{Lines: lines}))
		if err == nil {
			err = p.ApplyInline(context.WithoutCancel(t.Context()), tx, appended...)
		}
		return err
	}))
	want := c.folded("stock", 1)
	maps.DeleteFunc(want, func(id shelfID, _ shelf) bool { return id.Campaign != "shop1" })
	c.same("inline", c.rows("stock"), want)
}

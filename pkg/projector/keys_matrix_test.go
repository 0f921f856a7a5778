package projector_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/waiter"
)

// keysScopes are the scopes that documents with Keys have.
func keysScopes() []projection.Scope {
	return []projection.Scope{projection.ScopeCampaign, projection.ScopeJournal}
}

// keysMatrix is what meets an event of several keys. Where the two cannot meet, impossible has the reason.
func keysMatrix() []struct {
	name       string
	impossible map[projection.Scope]string
	do         func(c *keysCell)
} {
	return []struct {
		name       string
		impossible map[projection.Scope]string
		do         func(c *keysCell)
	}{
		{name: "replay", do: (*keysCell).meetsReplay},
		{name: "requeue of one key", do: (*keysCell).meetsRequeue},
		{name: "resolve", do: (*keysCell).meetsResolve},
		{name: "verify", do: (*keysCell).meetsVerify},
		{name: "as-of", do: (*keysCell).meetsAsOf},
		{name: "why", do: (*keysCell).meetsWhy},
		{name: "rebuild", do: (*keysCell).meetsRebuild},
		{name: "swap and roll back", do: (*keysCell).meetsRollback},
		{name: "waiter", do: (*keysCell).meetsWaiter},
		{name: "process beside", do: (*keysCell).meetsProcess},
		{name: "two documents, one with Keys", do: (*keysCell).meetsOneKey},
		{name: "two versions", do: (*keysCell).meetsVersions},
		{name: "groups of one event", do: (*keysCell).meetsSmallGroups},
		{name: "policy that skips", do: (*keysCell).meetsSkips},
		{name: "policy that pauses", do: (*keysCell).meetsPause},
		{name: "deadline", impossible: map[projection.Scope]string{
			projection.ScopeCampaign: "it is held against the campaign",
		}, do: (*keysCell).meetsDeadline},
		{name: "archive", do: (*keysCell).meetsArchive},
		{name: "sealed field", do: (*keysCell).meetsSealed},
	}
}

func TestAnEventOfSeveralKeysMeetsEverythingElse(t *testing.T) {
	t.Parallel()
	for _, cell := range keysMatrix() {
		for _, scope := range keysScopes() {
			if cell.impossible[scope] != "" {
				continue
			}
			t.Run(fmt.Sprint(cell.name, "/", scope), func(t *testing.T) {
				t.Parallel()
				cell.do(newKeysCell(t, scope))
			})
		}
	}
}

// A replay makes the rows of one key anew, or those of a campaign, and leaves the others.
func (c *keysCell) meetsReplay() {
	c.play()
	drain(c.T, c.stock())
	c.spoil("tea")
	c.must(c.replay("stock", "tea"))
	c.spoil("p1")
	c.sell()
	drain(c.T, c.stock())
	want := c.folded("stock", 1)
	for id := range want {
		if id.Key == "p1" && (c.scope == projection.ScopeJournal || id.Campaign != c.campaign) {
			if got := c.rows("stock")[id]; got == want[id] {
				c.Errorf("%v was replayed too", id)
			}
		}
	}
	for _, article := range []string{"tea", "p1"} {
		c.must(c.replay("stock", article))
	}
	c.replayOthers()
	drain(c.T, c.stock())
	c.expect("replayed", "stock", 1)
	c.held("")
}

// replayOthers replays the campaigns beside that of the order that is refused.
func (c *keysCell) replayOthers() {
	if c.scope == projection.ScopeJournal {
		return
	}
	of := c.campaign
	for _, c.campaign = range []string{"shop0", "shop2"} {
		c.must(c.replay("stock", ""))
	}
	c.campaign = of
}

// A failure holds back its key alone, and an act on the key is for that key alone.
func (c *keysCell) meetsRequeue() {
	c.refuses.Store(true)
	c.play()
	drain(c.T, c.stock())
	c.held("pots tea")
	c.expect("two keys are held back", "stock", 1)
	retry(c.T, c.pool, c.stock())
	c.held("pots tea")
	c.refuses.Store(false)
	c.must(c.requeue("stock", "tea"))
	drain(c.T, c.stock())
	if c.scope == projection.ScopeJournal {
		c.held("pots")
		c.expect("one key is held back", "stock", 1)
		c.sell()
		drain(c.T, c.stock())
		c.expect("one key is held back, and others go on", "stock", 1)
		c.must(c.requeue("stock", "pots"))
		drain(c.T, c.stock())
	}
	c.held("")
	c.expect("none is held back", "stock", 1)
}

// A resolution leaves the event out for its key alone, wherever it is applied.
func (c *keysCell) meetsResolve() {
	c.refuses.Store(true)
	c.play()
	drain(c.T, c.stock())
	c.must(c.resolve("stock", "tea"))
	drain(c.T, c.stock())
	if c.scope == projection.ScopeJournal {
		c.held("pots")
		c.expect("one of two is resolved", "stock", 1)
		c.must(c.resolve("stock", "pots"))
		drain(c.T, c.stock())
	}
	c.held("")
	c.expect("resolved", "stock", 1)
	c.must(c.replay("stock", "tea"))
	drain(c.T, c.stock())
	c.expect("resolved and replayed", "stock", 1)
	expectVerified(c.T, c.stock(), lookback.VerifyRequest{Projection: "stock", All: true})
	c.rebuilt()
	c.expect("resolved and rebuilt", "stock", 2)
	c.expect("resolved, before the rebuild", "stock~previous", 1)
	c.refuses.Store(false)
	c.must(c.unresolve("stock", "tea"))
	drain(c.T, c.both())
	c.expect("taken back", "stock", 2)
	c.expect("taken back, before the rebuild", "stock~previous", 1)
}

// both is a worker with two versions.
func (c *keysCell) both() *projector.Projector {
	return c.worker(c.shelves("stock", 1), c.shelves("stock", 2))
}

// rebuilt rebuilds the document as version 2.
func (c *keysCell) rebuilt() {
	c.Helper()
	c.startRebuild()
	c.endRebuild()
}

func (c *keysCell) startRebuild() {
	none, two := 0, 2
	_, err := rebuild.StartRebuild(c.Context(), c.pool, "stock", rebuild.Options{Version: &two, Verify: &none}, ada)
	c.must(err)
}

func (c *keysCell) endRebuild() {
	c.Helper()
	for range 3 {
		exec(c.T, c.pool, `UPDATE tidemark.rebuilds SET refused_at = NULL`)
		drain(c.T, c.both())
	}
	expectText(c.T, c.pool, "versions", "stock 2, stock~previous 1", `SELECT string_agg(name || ' ' || version, ', ' ORDER BY name)
		FROM tidemark.projections`)
}

// Verify folds by key, up to where each stands, and names the key that differs.
func (c *keysCell) meetsVerify() {
	all := lookback.VerifyRequest{Projection: "stock", All: true}
	c.sell()
	c.campaign = "shop1"
	drain(c.T, c.stock())
	expectVerified(c.T, c.stock(), all)
	c.spoil("tea")
	want := []string{`different tea ["tea"] doc`}
	if c.scope != projection.ScopeJournal {
		want = []string{`different shop0 ["shop0", "tea"] doc`, `different shop1 ["shop1", "tea"] doc`, `different shop2 ["shop2", "tea"] doc`}
	}
	expectVerified(c.T, c.stock(), all, want...)
	if c.scope == projection.ScopeJournal {
		expectVerified(c.T, c.stock(), lookback.VerifyRequest{Projection: "stock", Campaigns: []string{"tea", "cups"}}, want...)
		expectVerified(c.T, c.stock(), lookback.VerifyRequest{Projection: "stock", Campaigns: []string{"cups", "pots"}})
		expectVerified(c.T, c.stock(), lookback.VerifyRequest{Projection: "stock", Sample: 100}, want...)
	}
	c.must(c.replay("stock", "tea"))
	c.replayOthers()
	drain(c.T, c.stock())
	c.refuses.Store(true)
	c.play()
	drain(c.T, c.stock())
	c.held("pots tea")
	expectVerified(c.T, c.stock(), all)
	if c.scope == projection.ScopeJournal {
		c.must(c.resolve("stock", "tea"))
		drain(c.T, c.stock())
		expectVerified(c.T, c.stock(), all)
	}
	c.refuses.Store(false)
	c.must(c.requeue("stock", "pots"))
	drain(c.T, c.stock())
	expectVerified(c.T, c.stock(), all)
	c.refuses.Store(true) // now the events cannot be applied again
	key, _ := c.failure("stock", "pots")
	if r := expectVerified(c.T, c.stock(), all, "failed "+key.CampaignID); r.Failed != 1 {
		c.Errorf("%+v", r)
	}
}

// As-of and diff show one key, or all.
func (c *keysCell) meetsAsOf() {
	c.play()
	p := registered(c.T, c.stock())
	of, at := c.failure("stock", "tea")
	before := c.asOf(of.CampaignID, at-1)
	drain(c.T, p)
	state, err := p.AsOf(c.Context(), "stock", of.CampaignID, at)
	c.must(err)
	got := c.documents(state)
	for id, doc := range c.asOf(of.CampaignID, at) {
		if got[id] != doc {
			c.Errorf("%v is %+v, want %+v", id, got[id], doc)
		}
		delete(got, id)
	}
	if len(got) > 0 {
		c.Errorf("there are %v", got)
	}
	changes, err := p.Diff(c.Context(), "stock", of.CampaignID, at-1, at)
	c.must(err)
	want := 3 // documents of the event
	if c.scope == projection.ScopeJournal {
		want = 1
	}
	if len(changes) != want {
		c.Errorf("%d rows have changed, want %d: %+v", len(changes), want, changes)
	}
	if doc := before[c.of(event.Event{CampaignID: c.campaign}, "tea")]; !strings.Contains(string(changes[len(changes)-1].Before),
		fmt.Sprintf(`"left": %d`, doc.Left)) {
		c.Errorf("before it was %s, want %+v", changes[len(changes)-1].Before, doc)
	}
}

// documents returns the rows of a state.
func (c *keysCell) documents(s lookback.State) map[shelfID]shelf {
	all := map[shelfID]shelf{}
	for _, raw := range s.Tables[0].Rows {
		var row struct {
			Campaign string `json:"campaign_id"`
			Key      string
			Doc      shelf
		}
		c.must(json.Unmarshal(raw, &row))
		all[shelfID{row.Campaign, row.Key}] = row.Doc
	}
	return all
}

// Why names the event that has changed the document of the key last.
func (c *keysCell) meetsWhy() {
	c.play()
	latest := c.order(c.campaign, purchase{Lines: map[string]int{"tea": 5, "p0": 1}})
	c.order(c.campaign, purchase{Lines: map[string]int{"p0": 1, "p1": 1}})
	p := registered(c.T, c.stock())
	of, _ := c.failure("stock", "tea")
	r := lookback.WhyRequest{Projection: "stock", CampaignID: of.CampaignID}
	if c.scope != projection.ScopeJournal {
		r.Key = []string{"tea"}
	}
	why, err := p.Why(c.Context(), r)
	c.must(err)
	last := why.Causes[len(why.Causes)-1]
	if last.Column != "doc" || last.Event.Position != latest.Position || last.Event.CampaignID != c.campaign {
		c.Errorf("the document is from %+v, want event %d", last, latest.Position)
	}
}

// A rebuild makes both sets of tables from each key, and both go on.
func (c *keysCell) meetsRebuild() {
	c.play()
	drain(c.T, c.stock())
	c.refuses.Store(true)
	c.startRebuild()
	drain(c.T, c.both())
	c.refuses.Store(false)
	exec(c.T, c.pool, `UPDATE tidemark.failed SET status = 'failed', next_attempt_at = now()`)
	c.endRebuild()
	c.play()
	drain(c.T, c.both())
	c.expect("rebuilt", "stock", 2)
	c.expect("before the rebuild", "stock~previous", 1)
}

func (c *keysCell) meetsRollback() {
	c.play()
	drain(c.T, c.stock())
	c.rebuilt()
	c.refuses.Store(true)
	c.play()
	p := c.both()
	drain(c.T, p)
	c.held("pots tea")
	c.expect("swapped", "stock", 2)
	c.must(rebuild.Rollback(c.Context(), c.pool, "stock", rebuild.RollbackOptions{AllowBehind: -1}, ada))
	c.held("pots tea")
	c.expect("rolled back", "stock", 1)
	c.refuses.Store(false)
	exec(c.T, c.pool, `UPDATE tidemark.failed SET status = 'failed', attempt_count = 0, next_attempt_at = now()`)
	drain(c.T, p)
	c.held("")
	c.expect("rolled back and mended", "stock", 1)
	c.expect("replaced", "stock~previous", 2)
}

// A wait ends when each key has the event, or with the failure of one.
func (c *keysCell) meetsWaiter() {
	p := registered(c.T, c.stock())
	w := waiterOn(c.T, c.pool)
	order := c.order("shop1", purchase{Lines: map[string]int{"tea": 1, "cups": 2, "pots": 3}})
	waitsOn(c.T, w, order.Token(), "stock")
	drain(c.T, p)
	waited(c.T, w, order.Token(), "stock")
	c.refuses.Store(true)
	order = c.order("shop1", purchase{Lines: map[string]int{"cups": 2, "pots": rejected, "p1": 3}})
	c.campaign, c.at, c.seq = "shop1", order.Position, order.Seq
	drain(c.T, p)
	_, at := c.failure("stock", "pots")
	refused(c.T, w, order.Token(), "stock", waiter.NotAppliedError{
		Projection: "stock", CampaignID: "shop1", Seq: order.Seq, Status: waiter.Failed, At: at, Message: "refused",
	})
	c.refuses.Store(false)
	retry(c.T, c.pool, p)
	waited(c.T, w, order.Token(), "stock")
}

// buyers is a process that thanks customers.
func buyers() projection.Projection {
	return projection.Process[int]{
		Name: "buyers", Version: 1, From: new(int64),
		Key: func(e event.Event) (string, error) {
			p, err := purchased.Decode(e)
			return p.Customer, err
		},
		On: event.Folds[int]{
			event.OnKey(purchased, func(n *int, customer string, _ event.Event, p purchase) error {
				if customer != p.Customer {
					return fmt.Errorf("the key of %s is %s", p.Customer, customer)
				}
				*n++
				return nil
			}),
		},
		React: []projection.Reaction[int]{
			projection.React(purchased, func(_ *int, _ event.Event, _ purchase) ([]projection.Do, error) {
				return []projection.Do{{Campaign: "thanks", Events: []event.Event{{Type: "thanked"}}}}, nil
			}),
		},
	}
}

func (c *keysCell) meetsProcess() {
	c.refuses.Store(true)
	c.play()
	drain(c.T, c.worker(c.shelves("stock", 1), buyers()))
	c.held("pots tea")
	c.refuses.Store(false)
	retry(c.T, c.pool, c.worker(c.shelves("stock", 1), buyers()))
	c.held("")
	c.expect("beside a process", "stock", 1)
	expectText(c.T, c.pool, "customers", "customer0 11, customer1 8", `SELECT string_agg(key || ' ' || doc, ', ' ORDER BY key)
		FROM tidemark_views.buyers`)
	expectText(c.T, c.pool, "reactions", "19", `SELECT count(*)::text FROM tidemark.scheduled`)
}

// first is a document of the first article of an order.
func (c *keysCell) first(name string, version int) projection.Document[shelf] {
	d := c.shelves(name, version)
	d.Keys = nil
	d.Key = func(e event.Event) (string, error) {
		keys, err := articlesOf(e)
		return append(keys, "")[0], err
	}
	return d
}

// firsts folds the journal by the first article of each event, without those of one that are held back.
func (c *keysCell) firsts(version int, without func(e event.Event, article string) bool) map[shelfID]shelf {
	all := map[shelfID]shelf{}
	c.each(func(e event.Event, p purchase) {
		keys, err := articlesOf(e)
		c.must(err)
		if len(keys) > 0 && !without(e, keys[0]) {
			doc := all[c.of(e, keys[0])]
			doc.sell(e, version*p.Lines[keys[0]])
			all[c.of(e, keys[0])] = doc
		}
	})
	return all
}

func everything(event.Event, string) bool { return false }

func (c *keysCell) meetsOneKey() {
	c.refuses.Store(true)
	c.play()
	p := c.worker(c.shelves("stock", 1), c.first("firsts", 1))
	drain(c.T, p)
	expectText(c.T, c.pool, "held back", "", `SELECT string_agg(projection, ' ') FROM tidemark.failed WHERE projection = 'firsts'`)
	c.same("the one with Key", c.rows("firsts"), c.firsts(1, everything)) // cups come first, which is not refused
	c.expect("the one with Keys", "stock", 1)
	c.refuses.Store(false)
	retry(c.T, c.pool, p)
	c.same("the one with Key", c.rows("firsts"), c.firsts(1, everything))
	c.expect("the one with Keys", "stock", 1)
	expectVerified(c.T, p, lookback.VerifyRequest{Projection: "firsts", All: true})
}

// A new version may have several keys where the old one had one. Resolutions of the old one are for their key.
func (c *keysCell) meetsVersions() {
	c.sell()
	old := c.first("stock", 1)
	drain(c.T, c.worker(old))
	two := 2
	_, err := rebuild.StartRebuild(c.Context(), c.pool, "stock", rebuild.Options{Version: &two}, ada)
	c.must(err)
	p := c.worker(old, c.shelves("stock", 2))
	drain(c.T, c.worker(old)) // cannot build it
	c.same("the old version", c.rows("stock"), c.firsts(1, everything))
	for range 3 {
		c.play()
		drain(c.T, p)
	}
	c.expect("the new version", "stock", 2)
	c.same("the old version", c.rows("stock~previous"), c.firsts(1, everything))
	c.refuses.Store(true)
	c.play()
	drain(c.T, p)
	c.expect("a key is held back in the new version", "stock", 2)
	c.must(c.resolve("stock", "tea"))
	drain(c.T, p)
	c.expect("and resolved", "stock", 2)
	if c.scope == projection.ScopeJournal {
		// With one key an event is left out by its position, whatever its key is in that version, once the key is replayed.
		c.same("the old version", c.rows("stock~previous"), c.firsts(1, everything))
		c.must(c.replay("stock~previous", "cups"))
		drain(c.T, p)
		c.same("the old version, replayed", c.rows("stock~previous"), c.firsts(1, func(e event.Event, _ string) bool {
			return e.Position == c.at
		}))
		return
	}
	c.same("the old version", c.rows("stock~previous"), c.firsts(1, func(e event.Event, _ string) bool {
		return e.CampaignID == c.campaign && e.Seq == c.seq
	}))
}

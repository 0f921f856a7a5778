package erasure_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

type order struct {
	Customer string `json:"customer"`
	Email    string `json:"email"`
	Amount   int    `json:"amount"`
}

type sums struct {
	Names  []string `json:"names"`
	Amount int      `json:"amount"`
}

// shop is an application with each kind of read model. Its events about a customer have the planted
// text of that customer everywhere an event can have text.
type shop struct {
	*pgxpool.Pool
	t         *testing.T
	catalogue *catalogue.Catalogue
}

const shopCatalogue = `types:
  ordered:
    version: 2
    subject: [customer, name]
    personal: [customer, name, email]
    upcast: {1: [{rename: {name: customer}}]}
`

func catalogueOf() *catalogue.Catalogue {
	types, err := yamlfile.Load(fstest.MapFS{"c.yaml": {Data: []byte(shopCatalogue)}}, "c.yaml")
	if err != nil {
		panic(err)
	}
	return types
}

func newShop(t *testing.T) *shop {
	t.Helper()
	return &shop{Pool: pgtest.New(t), t: t, catalogue: catalogueOf()}
}

// planted returns a text that only events of the customer have.
func planted(customer string) string { return "planted-" + customer }

// projections are read models of all kinds. Events of customers with "failing" in their name fail in documents.
func projections() []projection.Projection {
	fold := func(doc *sums, e event.Event) error {
		o, err := event.Decode[order](e)
		if err == nil && strings.Contains(o.Customer, "failing") {
			err = fmt.Errorf("%s cannot order", o.Customer)
		}
		if e.Erased() {
			return err
		}
		doc.Names, doc.Amount = append(doc.Names, o.Customer), doc.Amount+o.Amount
		return err
	}
	orders := &projection.Handlers{
		Name: "orders", Version: 1,
		Tables: `CREATE TABLE orders (campaign_id text, seq bigint, customer text, amount int, PRIMARY KEY (campaign_id, seq))`,
		On: []projection.Handler{
			projection.Handle("ordered", func(_ context.Context, g *projection.Group, e event.Event, o order) error {
				g.Queue(`INSERT INTO orders VALUES ($1, $2, $3, $4)`, e.CampaignID, e.Seq, o.Customer, o.Amount)
				return nil
			}),
		},
	}
	log := &projection.Handlers{
		// its campaigns cannot be reset
		Name: "log", Version: 1, Scope: projection.ScopeJournal,
		Tables: `CREATE TABLE log (position bigint PRIMARY KEY, customer text)`,
		On: []projection.Handler{
			projection.Handle("ordered", func(_ context.Context, g *projection.Group, e event.Event, o order) error {
				g.Queue(`INSERT INTO log VALUES ($1, $2)`, e.Position, o.Customer)
				return nil
			}),
		},
	}
	return []projection.Projection{
		projection.Document[sums]{
			Name: "shops", Version: 1, Types: []string{"ordered"}, Fold: fold, DropErased: true,
		},
		projection.Document[sums]{
			Name: "customers", Version: 1, Types: []string{"ordered"}, Scope: projection.ScopeJournal, Partitions: 2, Fold: fold,
			Key: func(e event.Event) (string, error) {
				o, err := event.Decode[order](e)
				return o.Customer, err
			},
		},
		orders, log,
	}
}

func projectorOf(pool *pgxpool.Pool, types *catalogue.Catalogue) (*projector.Projector, error) {
	return projector.New(projector.Config{
		Pool: pool, Projections: projections(), Catalogue: types, NoListen: true, PollInterval: 100 * time.Millisecond,
		OnFailure: projection.Policy{Base: time.Hour, Max: time.Hour}, LeaseTTL: time.Second,
	})
}

// work runs a worker until the test ends.
func (s *shop) work() {
	s.t.Helper()
	p, err := projectorOf(s.Pool, s.catalogue)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := p.Register(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.run(p)
}

// run runs a projector until the test ends.
func (s *shop) run(p *projector.Projector) {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
}

// order appends an order of a customer, in the old version if the amount is odd.
func (s *shop) order(campaign, customer string, amount int) {
	s.t.Helper()
	name, text := "customer", planted(customer)
	if amount%2 == 1 {
		name = "name"
	}
	e := event.Event{
		Type: "ordered", Version: 2 - amount%2, Actor: text, AggregateID: text, Tags: []string{"customer=" + text},
		Payload:  fmt.Appendf(nil, `{%q: %q, "email": "%s@example.com", "amount": %d}`, name, text, text, amount),
		Metadata: fmt.Appendf(nil, `{"by": %q}`, text),
	}
	if err := pgx.BeginFunc(s.t.Context(), s.Pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{Catalogue: s.catalogue}.Append(s.t.Context(), tx, campaign, journal.Any, e)
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) value(sql string, args ...any) (text string) {
	s.t.Helper()
	if err := s.QueryRow(s.t.Context(), `SELECT coalesce((`+sql+`)::text, '')`, args...).Scan(&text); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func (s *shop) within(what string, ready func() bool) {
	s.t.Helper()
	for limit := time.After(2 * time.Minute); !ready(); {
		select {
		case <-limit:
			s.t.Fatalf("waited in vain: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// everywhere returns the tables of all schemas that have a row with the text.
func (s *shop) everywhere(text string) (tables []string) {
	s.t.Helper()
	rows, err := s.Query(s.t.Context(), `SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n
		ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		s.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.t.Fatal(err)
	}
	for _, table := range all {
		if s.value(`SELECT count(*) FROM `+table+` t WHERE strpos(t::text, $1) > 0`, text) != "0" {
			tables = append(tables, table)
		}
	}
	return tables
}

func (s *shop) erase(r erasure.Request) *erasure.Certificate {
	s.t.Helper()
	r.By, r.Reason, r.Catalogue = "anna", "a request", s.catalogue
	c, err := erasure.Erase(s.t.Context(), s.Pool, r)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// verify waits until the read models are made anew, and returns what a search finds.
func (s *shop) verify(c *erasure.Certificate) *erasure.Report {
	s.t.Helper()
	var report *erasure.Report
	s.within("read models are made anew", func() (done bool) {
		var err error
		if report, err = erasure.Verify(s.t.Context(), s.Pool, s.Pool, *c); err != nil {
			s.t.Fatal(err)
		}
		return len(report.Pending) == 0
	})
	return report
}

func (s *shop) fill() {
	s.t.Helper()
	for i := range 6 {
		for _, customer := range []string{"ann", "bob", "failing"} {
			s.order(fmt.Sprint("shop", i), customer, 10+i)
		}
	}
	s.within("all is applied or has failed", func() bool {
		return s.value(`SELECT count(*) FROM tidemark_views.orders`) == "18" && s.value(`SELECT count(*) FROM tidemark_views.log`) == "18" &&
			s.value(`SELECT count(*) FROM tidemark.failed`) == "7" && s.value(`SELECT count(*) FROM tidemark_views.customers`) == "2"
	})
	if err := pgx.BeginFunc(s.t.Context(), s.Pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.AppendAt(s.t.Context(), tx, "shop1", time.Now().Add(time.Hour),
			event.Event{Type: "reminded", Payload: []byte(`{"text": "planted-reminder"}`)})
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.Exec(s.t.Context(), `INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position,
		status, error_message) SELECT 'all', 'it', campaign_id, seq, true, position, 'parked', payload::text
			FROM tidemark.journal WHERE seq = 1`); err != nil {
		s.t.Fatal(err)
	}
}

func TestAnErasedSubjectIsNowhereAndReadModelsAreTheFoldOfWhatIsLeft(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]erasure.Request{
		"by tag":                {Subjects: []string{"customer=" + planted("ann"), "customer=" + planted("failing")}},
		"by field":              {Subjects: []string{planted("ann"), planted("failing")}},
		"personal fields alone": {Subjects: []string{planted("ann"), planted("failing")}, Personal: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.work()
			s.fill()
			c := s.erase(r)
			if name == "by tag" && c.Events != 12 || c.Changed["journal"] != c.Events {
				t.Errorf("%d events are erased, %v rows of the journal", c.Events, c.Changed)
			}
			report := s.verify(c)
			if report.Rows != 0 {
				t.Errorf("the search finds %+v", report.Searched)
			}
			for _, customer := range []string{"ann", "failing"} {
				if found := s.everywhere(planted(customer)); found != nil {
					t.Errorf("%s is found in %v", customer, found)
				}
			}
			if found := s.everywhere(planted("bob")); len(found) < 6 {
				t.Errorf("bob is found in %v alone", found)
			}
			s.within("the failed events are gone", func() bool { return s.value(`SELECT count(*) FROM tidemark.failed`) == "0" })
			sum := "75" // of bob
			if got := s.value(`SELECT sum((doc ->> 'amount')::int) FROM tidemark_views.shops`); got != sum {
				t.Errorf("shops have %s, want %s", got, sum)
			}
			if got := s.value(`SELECT string_agg(key || ' ' || (doc ->> 'amount'), ', ') FROM tidemark_views.customers`); got != planted("bob")+" "+sum {
				t.Errorf("customers are %s", got)
			}
			if got := s.value(`SELECT count(*) FROM tidemark_views.orders WHERE customer = ''`); got != "12" {
				t.Errorf("%s orders have no customer, want 12", got)
			}
			if got := s.value(`SELECT count(*) FROM tidemark.journal WHERE event_type = $1 AND payload -> 'seqs' <> '[]'`,
				erasure.EventType); got != "6" {
				t.Errorf("%s campaigns tell of it, want 6", got)
			}
			again := r
			again.By, again.Reason, again.Catalogue = "anna", "once more", s.catalogue
			if _, err := erasure.Erase(t.Context(), s.Pool, again); !errors.Is(err, erasure.ErrNothing) {
				t.Errorf("a second erasure: %v", err)
			}
		})
	}
}

func TestAnErasedCampaignKeepsPlacesTypesAndIDs(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.work()
	s.fill()
	const kept = `SELECT string_agg(concat_ws(' ', seq, position, event_id, event_type, event_version, intent, occurred_at, recorded_at), ', '
		ORDER BY seq) FROM tidemark.journal WHERE campaign_id = 'shop1' AND event_type <> 'events_erased'`
	before := s.value(kept)
	c := s.erase(erasure.Request{Campaign: "shop1"})
	if c.Events != 3 || s.value(kept) != before {
		t.Errorf("%d events are erased, and the campaign is %s, was %s", c.Events, s.value(kept), before)
	}
	if got := s.value(`SELECT string_agg(DISTINCT payload::text || metadata::text, ' ') FROM tidemark.journal
		WHERE campaign_id = 'shop1' AND event_type = 'ordered'`); got != fmt.Sprintf(`{}{"$erased": %d}`, c.Erasure) {
		t.Errorf("the events have %s", got)
	}
	if found := s.everywhere("planted-reminder"); found != nil {
		t.Errorf("a scheduled append is left in %v", found)
	}
	s.verify(c)
	if got := s.value(`SELECT count(*) FROM tidemark_views.shops`); got != "5" {
		t.Errorf("there are %s shops, want 5", got)
	}
	for e, err := range journal.ReadAll(t.Context(), s.Pool, 0) {
		if err != nil || e.Erased() != (e.CampaignID == "shop1" && e.Type == "ordered") {
			t.Errorf("event %d of %s: erased %t, error %v", e.Seq, e.CampaignID, e.Erased(), err)
		}
	}
}

// TestAMarkInMetadataHidesNoEvent has events whose own metadata says that they are erased, as an import of
// the owner may write them.
func TestAMarkInMetadataHidesNoEvent(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order("shop", "bob", 1)
	s.erase(erasure.Request{Subjects: []string{"customer=" + planted("bob")}})
	for _, mark := range []string{`1`, `"1"`, `"ann"`, `-1`, `1e300`, `99999999999999999999`, `null`, `{}`} {
		exec := `SELECT tidemark.append_rows('shop', jsonb_build_array(jsonb_build_object('type', 'ordered',
			'tags', '["customer=ann"]'::jsonb, 'payload', '{"customer": "planted-ann"}'::jsonb,
			'metadata', jsonb_build_object('$erased', $1::jsonb))), NULL, true)`
		if _, err := s.Exec(t.Context(), exec, mark); err != nil {
			t.Fatal(err)
		}
	}
	if c := s.erase(erasure.Request{Subjects: []string{"customer=ann"}}); c.Events != 8 {
		t.Errorf("%d events are erased, want 8", c.Events)
	}
	if found := s.everywhere("planted-ann"); found != nil {
		t.Errorf("it is found in %v", found)
	}
}

// TestWhatAnErasureOfPersonalFieldsHasLeftCanBeErased erases the personal fields, and then the campaign.
func TestWhatAnErasureOfPersonalFieldsHasLeftCanBeErased(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order("shop", "ann", 2)
	s.erase(erasure.Request{Campaign: "shop", Personal: true})
	if got := s.value(`SELECT payload FROM tidemark.journal WHERE event_type = 'ordered'`); got != `{"amount": 2}` {
		t.Errorf("personal fields are erased, and %s is left", got)
	}
	s.erase(erasure.Request{Campaign: "shop"})
	if got := s.value(`SELECT payload FROM tidemark.journal WHERE event_type = 'ordered'`); got != `{}` {
		t.Errorf("the campaign is erased, and %s is left", got)
	}
}

func TestTheSearchFindsWhatIsLeft(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order("shop", "ann", 2)
	c := s.erase(erasure.Request{Campaign: "shop"})
	if r := s.verify(c); r.Rows != 0 {
		t.Errorf("the search finds %+v", r.Searched)
	}
	if _, err := s.Exec(t.Context(), `INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
		VALUES ('group', 'default', '', 'asked by planted-ann, today', 'anna')`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exec(t.Context(), `INSERT INTO tidemark.event_tags VALUES ('who=planted-ann', 'ordered', 1)`); err != nil {
		t.Fatal(err)
	}
	if r := s.verify(c); r.Rows != 2 {
		t.Errorf("the search finds %+v, want a row of pauses and one of event_tags", r.Searched)
	}
	c.Key = make([]byte, 32)
	if r := s.verify(c); r.Rows != 0 {
		t.Errorf("another key finds %+v", r.Searched)
	}
	c.Key = nil
	if _, err := erasure.Verify(t.Context(), s.Pool, s.Pool, *c); !errors.Is(err, erasure.ErrKey) {
		t.Errorf("without a key: %v", err)
	}
}

// swapped does something once, before the first transaction.
type swapped struct {
	*pgxpool.Pool
	before sync.Once
	swap   string
}

func (s *swapped) Begin(ctx context.Context) (tx pgx.Tx, err error) {
	s.before.Do(func() { _, err = s.Exec(ctx, s.swap) })
	if err != nil {
		return nil, err
	}
	return s.Pool.Begin(ctx)
}

// TestTheSearchGoesOnWhereASwapHasDroppedTables drops tables between their list and the search: one is gone, and
// another table gets the name of the second.
func TestTheSearchGoesOnWhereASwapHasDroppedTables(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.work()
	s.order("shop", "ann", 2)
	s.within("all is applied", func() bool { return s.value(`SELECT count(*) FROM tidemark_views.log`) == "1" })
	c := s.erase(erasure.Request{Campaign: "shop"})
	if r := s.verify(c); r.Rows != 0 || !r.Finished() {
		t.Fatalf("the search finds %+v", r)
	}
	report, err := erasure.Verify(t.Context(), s.Pool, &swapped{Pool: s.Pool, swap: `DROP TABLE tidemark_views.log;
		CREATE TABLE tidemark_views.made AS SELECT campaign_id, 1 AS seq, 'planted-ann' AS customer FROM tidemark_views.orders;
		DROP TABLE tidemark_views.orders; ALTER TABLE tidemark_views.made RENAME TO orders`}, *c)
	if err != nil || report.Rows != 1 || !report.Finished() {
		t.Errorf("after the swap the search finds %+v, %v", report, err)
	}
	for _, searched := range report.Searched {
		if strings.Contains(searched.Table, "log") && strings.Contains(searched.Table, "tidemark_views") {
			t.Errorf("%s was searched", searched.Table)
		}
	}
}

func TestAnErasureThatSaysTwoThingsOrNothingIsRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order("shop", "ann", 2)
	for name, tt := range map[string]struct {
		erasure.Request
		want error
	}{
		"nothing":         {erasure.Request{}, erasure.ErrConflict},
		"both":            {erasure.Request{Campaign: "shop", Subjects: []string{"x"}}, erasure.ErrConflict},
		"an empty key":    {erasure.Request{Subjects: []string{""}}, erasure.ErrConflict},
		"no such one":     {erasure.Request{Campaign: "shop2"}, erasure.ErrNothing},
		"no such subject": {erasure.Request{Subjects: []string{"x"}}, erasure.ErrNothing},
		"no personal":     {erasure.Request{Campaign: "shop", Personal: true}, erasure.ErrConflict},
	} {
		tt.By, tt.Reason = "anna", "a test"
		if _, err := erasure.Erase(t.Context(), s.Pool, tt.Request); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if n := s.value(`SELECT count(*) FROM tidemark.erasures`); n != "0" {
		t.Errorf("%s erasures are on record", n)
	}
	if _, err := s.Exec(t.Context(), `UPDATE tidemark.journal SET payload = '{}'`); err == nil {
		t.Error("an UPDATE of the journal is not refused")
	}
}

// killed puts a request on record, whose call was killed then.
func (s *shop) killed(r erasure.Request) {
	s.t.Helper()
	s.value(`SELECT id FROM tidemark.begin_erasure(nullif($1, ''), $2, NULL, NULL, 'anna', 'killed', true)`, r.Campaign,
		r.Subjects)
	s.expire()
}

// expire has no call hold an erasure.
func (s *shop) expire() {
	s.t.Helper()
	if _, err := s.Exec(s.t.Context(), `UPDATE tidemark.erasures SET held_until = now()`); err != nil {
		s.t.Fatal(err)
	}
}

// TestAnInterruptedErasureIsFinished has all events erased, but nothing after.
func TestAnInterruptedErasureIsFinished(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.work()
	s.order("shop", "ann", 2)
	s.within("all is applied", func() bool {
		return s.value(`SELECT count(*) FROM tidemark_views.customers`)+s.value(`SELECT count(*) FROM tidemark_views.log`) == "11"
	})
	s.killed(erasure.Request{Campaign: "shop"})
	if n := s.value(`SELECT array_length(tidemark.erase(1, 1, 'shop', NULL, 10), 1)`); n != "1" {
		t.Fatalf("%s events are erased", n)
	}
	s.expire()
	s.verify(s.erase(erasure.Request{Campaign: "shop"}))
	if found := s.value(`SELECT string_agg(key, ' ') FROM tidemark_views.customers`); found != "" {
		t.Errorf("there are customers %s", found)
	}
	if found := s.value(`SELECT count(*) FROM tidemark.erasures WHERE ended_at IS NULL`); found != "0" {
		t.Errorf("%s erasures have not ended", found)
	}
}

// TestAProjectionThatIsRegisteredDuringAnErasureIsRebuilt has an operator who was killed, and who did not
// know of any projection.
func TestAProjectionThatIsRegisteredDuringAnErasureIsRebuilt(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order("shop", "ann", 2)
	s.order("shop", "bob", 2)
	s.killed(erasure.Request{Subjects: []string{planted("ann")}})
	s.work()
	s.within("all is applied", func() bool {
		return s.value(`SELECT (SELECT count(*) FROM tidemark_views.orders) + (SELECT count(*) FROM tidemark_views.log)`) == "4"
	})
	s.value(`SELECT tidemark.erase(1, 1, 'shop', '{1}', 10)`)
	s.expire()
	c := s.erase(erasure.Request{Subjects: []string{planted("ann")}})
	if got := fmt.Sprint(c.Rebuilt); got != "[customers log orders shops]" {
		t.Errorf("%s are rebuilt", got)
	}
	s.verify(c)
	if found := s.everywhere(planted("ann")); found != nil {
		t.Errorf("the erased text is found in %v", found)
	}
}

// TestErasuresShareARebuildThatNoWorkerHasBegun has no worker between two erasures.
func TestErasuresShareARebuildThatNoWorkerHasBegun(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	p, err := projectorOf(s.Pool, s.catalogue)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, customer := range []string{"ann", "bob", "eve"} {
		s.order("shop", customer, 2)
	}
	for _, customer := range []string{"ann", "bob"} {
		s.erase(erasure.Request{Subjects: []string{planted(customer)}})
	}
	if got := s.value(`SELECT count(*) || ' ' || count(*) FILTER (WHERE act = 'rebuild_aborted') FROM tidemark.failure_log
		WHERE act LIKE 'rebuild%'`); got != "2 0" {
		t.Errorf("rebuilds that began and that were aborted: %s, want one for each of two projections", got)
	}
	s.work()
	c := s.erase(erasure.Request{Subjects: []string{planted("eve")}})
	s.verify(c)
	if found := s.everywhere("planted"); found != nil {
		t.Errorf("the erased text is found in %v", found)
	}
}

// TestKeysThatOperatorsActedOnAreErased has more acts than one statement looks at, and keys that no failure tells of.
func TestKeysThatOperatorsActedOnAreErased(t *testing.T) {
	t.Parallel()
	for name, subject := range map[string]string{"by tag": "customer=" + planted("ann"), "by field": planted("ann")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.work()
			s.order("shop", "ann", 2)
			s.order("shop", "bob", 2)
			s.within("all is applied", func() bool { return s.value(`SELECT count(*) FROM tidemark_views.customers`) == "2" })
			if err := pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
				_, err := failed.Replay(t.Context(), tx, failed.ReplayRequest{
					Group: "default", Projection: "customers", Campaigns: []string{planted("ann"), planted("bob")},
				}, failed.Act{By: "anna"})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Exec(t.Context(), `INSERT INTO tidemark.failure_log (act, consumer_group, projection, campaign_id, seq,
				error_message) SELECT 'dead', 'default', 'customers~next', CASE WHEN i % 1000 = 1 THEN $1 ELSE 'other' END, NULL, $1
				FROM generate_series(1, 41001) i`, planted("ann")); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Exec(t.Context(), `UPDATE tidemark.failure_log SET error_message = 'x' WHERE campaign_id = 'other'`); err != nil {
				t.Fatal(err)
			}
			c := s.erase(erasure.Request{Subjects: []string{subject}})
			s.within("read models are made anew", func() bool { // a search would read the log each time
				return s.value(`SELECT count(*) FROM tidemark.projections WHERE name LIKE '%~%'`) == "0" &&
					s.value(`SELECT count(*) FROM tidemark.failed`) == "0"
			})
			if found := s.everywhere(planted("ann")); found != nil {
				t.Errorf("the key is found in %v", found)
			}
			if got := s.value(`SELECT count(*) || ' ' || count(*) FILTER (WHERE act = 'replayed') || ' ' ||
				count(*) FILTER (WHERE error_message = 'erased') FROM tidemark.failure_log WHERE campaign_id = 'erased'`); got != "43 1 42" {
				t.Errorf("keys, acts and errors that are erased: %s", got)
			}
			if c.Changed["failure_log"] != 43 {
				t.Errorf("the certificate tells of %d rows", c.Changed["failure_log"])
			}
			if got := s.value(`SELECT count(*) FROM tidemark.failure_log WHERE campaign_id = $1`, planted("bob")); got != "1" {
				t.Errorf("%s acts on bob", got)
			}
		})
	}
}

// TestALargeCampaignIsErasedInBatches has exactly two batches of events, so that a third finds nothing.
func TestALargeCampaignIsErasedInBatches(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.work()
	if _, err := s.Exec(t.Context(), `SELECT tidemark.append('shop', jsonb_agg(jsonb_build_object('type', 'ordered', 'version', 2,
		'payload', jsonb_build_object('customer', 'planted-' || i, 'amount', i)))) FROM generate_series(1, 1000) i`); err != nil {
		t.Fatal(err)
	}
	s.within("all is applied", func() bool { return s.value(`SELECT count(*) FROM tidemark_views.log`) == "1000" })
	c := s.erase(erasure.Request{Campaign: "shop"})
	if c.Events != 1000 {
		t.Errorf("%d events are erased", c.Events)
	}
	s.verify(c)
	if found := s.everywhere("planted-"); found != nil {
		t.Errorf("they are found in %v", found)
	}
}

// statements counts the statements of a pool that contain a text.
type statements struct {
	text string
	n    atomic.Int64
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, s.text) {
		s.n.Add(1)
	}
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestASubjectIsErasedInOneReadOfTheJournal(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order("shop", "ann", 2)
	reads := &statements{text: "jsonb_array_elements_text($3::jsonb -> j.event_type)"}
	config := s.Config()
	config.ConnConfig.Tracer = reads
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	r := erasure.Request{Subjects: []string{planted("ann")}, Catalogue: s.catalogue}
	if found, err := erasure.Count(t.Context(), pool, r); err != nil || found.Events != 1 {
		t.Errorf("counted %+v, %v", found, err)
	}
	if _, err := erasure.Erase(t.Context(), pool, r); !errors.Is(err, erasure.ErrConflict) {
		t.Errorf("without operator and reason: %v", err)
	}
	r.By, r.Reason = "anna", "a request"
	reads.n.Store(0)
	if _, err := erasure.Erase(t.Context(), pool, r); err != nil || reads.n.Load() != 1 {
		t.Errorf("%d reads, %v", reads.n.Load(), err)
	}
}

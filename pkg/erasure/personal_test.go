package erasure_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// shopOf returns a shop with a catalogue of its own.
func shopOf(t *testing.T, catalogue string) *shop {
	t.Helper()
	c, err := yamlfile.Load(fstest.MapFS{"c.yaml": {Data: []byte(catalogue)}}, "c.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return &shop{Pool: pgtest.New(t), t: t, catalogue: c}
}

func (s *shop) append(campaign string, events ...event.Event) {
	s.t.Helper()
	if err := pgx.BeginFunc(s.t.Context(), s.Pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{Catalogue: s.catalogue}.Append(s.t.Context(), tx, campaign, journal.Any, events...)
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
}

const payments = `types:
  paid:
    version: 2
    subject: [customer.id]
    personal: [customer.name, guests.name, $metadata.ip, $tags.city]
    upcast: {1: [{move: {name: customer.name}}]}
`

// TestAnErasureOfPersonalFieldsLeavesWhatOthersNeed has a balance that several persons have paid into, and a
// decision on what was sold.
func TestAnErasureOfPersonalFieldsLeavesWhatOthersNeed(t *testing.T) {
	t.Parallel()
	s := shopOf(t, payments)
	pay := func(version int, payload string, actor, aggregate string) event.Event {
		return event.Event{
			Type: "paid", Version: version, Payload: []byte(payload), Actor: actor, AggregateType: "account", AggregateID: aggregate,
			Tags:     []string{"sku=tea", "customer=c-17", "city=Oslo", "vip"},
			Metadata: []byte(`{"ip": "10.0.0.1", "trace": "t1", "by": {"user": "Planted Ann", "of": ["c-17", "web"]}, "c-17": 1}`),
		}
	}
	s.append("shop",
		pay(2, `{"amount": 100, "customer": {"id": "c-17", "name": "Planted Ann"}, "guests": [{"name": "planted-bob", "age": 7}, {"age": 8}, "x"]}`,
			"till-3", "joint"),
		pay(1, `{"amount": 200, "name": "Planted Ann", "customer": {"id": "c-17"}}`, "user:Planted Ann", "c-17"))
	r := erasure.Request{Subjects: []string{"c-17", "customer=c-17"}, Catalogue: s.catalogue}
	if found, err := erasure.Count(t.Context(), s.Pool, r); err != nil || fmt.Sprint(found.Tags) != "[city=Oslo sku=tea vip]" {
		t.Errorf("decisions may use %v, %v", found.Tags, err)
	}
	s.erase(erasure.Request{Subjects: []string{"c-17"}, Personal: true})
	for seq, want := range map[int]string{
		1: `{"amount": 100, "guests": [{"age": 7}, {"age": 8}, "x"], "customer": {"id": "c-17"}} till-3 account joint {sku=tea,vip} {"by": {"of": ["web"]}, "trace": "t1"}`,
		2: `{"amount": 200, "customer": {"id": "c-17"}}  account  {sku=tea,vip} {"by": {"of": ["web"]}, "trace": "t1"}`,
	} {
		if got := s.value(`SELECT concat_ws(' ', payload, coalesce(actor, ''), aggregate_type, coalesce(aggregate_id, ''), tags, metadata - '$erased')
			FROM tidemark.journal WHERE seq = $1`, seq); got != want {
			t.Errorf("event %d is %s, want %s", seq, got, want)
		}
	}
	balance := 0
	for e, err := range journal.ReadCampaign(t.Context(), s.Pool, "shop", 0) {
		var said struct{ Amount int }
		if err = cmpOr(err, json.Unmarshal(e.Payload, &said)); err != nil {
			t.Fatal(err)
		}
		if balance += said.Amount; e.Erased() != (e.Type == "paid") {
			t.Errorf("event %d is erased: %t", e.Seq, e.Erased())
		}
	}
	if balance != 300 {
		t.Errorf("the balance is %d, want 300", balance)
	}
	for tag, want := range map[string]string{"sku=tea": "2", "vip": "2", "customer=c-17": "0", "city=Oslo": "0"} {
		if got := s.value(`SELECT count(*) FROM tidemark.event_tags WHERE tag = $1`, tag); got != want {
			t.Errorf("decisions see %s events of %s, want %s", got, tag, want)
		}
	}
	for _, left := range []string{"Planted", "planted-bob", "10.0.0.1", "Oslo"} {
		if found := s.everywhere(left); found != nil {
			t.Errorf("%s is found in %v", left, found)
		}
	}
}

func cmpOr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestScheduledAppendsOfASubjectAreErased plants the subject wherever a scheduled append may have it, in
// several campaigns.
func TestScheduledAppendsOfASubjectAreErased(t *testing.T) {
	t.Parallel()
	const at = `SELECT tidemark.append_at('%s', now() + interval '1 day', '[{"type": "other"}, %s]')`
	fill := func(s *shop, events ...string) {
		for i, e := range events {
			if _, err := s.Exec(t.Context(), fmt.Sprintf(at, fmt.Sprint("c", i%3), e)); err != nil {
				t.Fatal(err)
			}
		}
	}
	about := []string{
		`{"type": "x", "tags": ["customer=c-17", "sku=tea"]}`,
		`{"type": "paid", "version": 2, "payload": {"amount": 1, "customer": {"id": "c-17", "name": "planted-ann"}, "guests": [{"name": "planted-eve"}]}}`,
	}
	holding := []string{
		`{"type": "mail", "payload": {"lines": [{"to": "customer c-17"}]}}`,
		`{"type": "mail", "metadata": {"for": "c-17"}}`,
		`{"type": "mail", "actor": "c-17"}`,
		`{"type": "mail", "aggregate_id": "c-17"}`,
	}
	others := []string{
		`{"type": "paid", "version": 2, "payload": {"customer": {"id": "c-171", "name": "kept-ann"}}, "tags": ["customer=c-171"]}`,
		`{"type": "mail", "payload": {"to": "c-1"}}`,
	}
	timer := func(s *shop) {
		if _, err := s.Exec(t.Context(), `SELECT tidemark.append_at('c1', now() + interval '1 day', '[{"type": "expired"}]', 'baskets')`); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Exec(t.Context(), `UPDATE tidemark.scheduled SET timer = 'baskets/4:c-17/expiry' WHERE scheduled_by = 'baskets'`); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		s := shopOf(t, payments)
		fill(s, append(append(about, holding...), others...)...)
		timer(s)
		r := erasure.Request{Subjects: []string{"customer=c-17", "c-17"}, Catalogue: s.catalogue}
		if found, err := erasure.Count(t.Context(), s.Pool, r); err != nil || found.Scheduled != 7 || s.value(`SELECT count(*) FROM tidemark.scheduled`) != "9" {
			t.Errorf("found %+v, %v", found, err)
		}
		if c := s.erase(r); c.Changed["scheduled"] != 7 || c.Events != 0 {
			t.Errorf("the certificate says %d events, %v", c.Events, c.Changed)
		}
		if got := s.value(`SELECT count(*) FROM tidemark.scheduled WHERE events::text LIKE '%c-171%' OR events::text LIKE '%"c-1"%'`); got != "2" {
			t.Errorf("%s appends of others are left", got)
		}
		if got := s.value(`SELECT count(*) FROM tidemark.scheduled WHERE events::text ~ 'planted' OR timer IS NOT NULL`); got != "0" {
			t.Errorf("%s appends of the subject are left", got)
		}
	})
	t.Run("personal fields", func(t *testing.T) {
		t.Parallel()
		s := shopOf(t, payments)
		fill(s, append(append(about, holding...), others...)...)
		timer(s)
		c := s.erase(erasure.Request{Subjects: []string{"c-17"}, Personal: true})
		if got := s.value(`SELECT events -> 1 -> 'payload' FROM tidemark.scheduled WHERE events::text LIKE '%amount%'`); got !=
			`{"amount": 1, "guests": [{}], "customer": {"id": "c-17"}}` {
			t.Errorf("the payload is %s", got)
		}
		if n := s.value(`SELECT count(*) FROM tidemark.scheduled`); n != "9" || c.Changed["scheduled"] != 1 {
			t.Errorf("%s appends are left, and the certificate says %v", n, c.Changed)
		}
		if got := s.value(`SELECT count(*) FROM tidemark.scheduled WHERE events::text ~ 'planted'`); got != "0" {
			t.Errorf("%s appends of the subject are left", got)
		}
	})
	t.Run("personal subject", func(t *testing.T) {
		t.Parallel()
		s := shopOf(t, strings.Replace(payments, "personal: [", "personal: [customer.id, ", 1))
		fill(s, append(append(about, holding...), others...)...)
		timer(s)
		s.erase(erasure.Request{Subjects: []string{"c-17"}, Personal: true})
		if got := s.value(`SELECT string_agg(events::text, ' ') FROM tidemark.scheduled WHERE timer IS NOT NULL OR events::text ~ 'c-17"|planted|17-c'`); got != "" {
			t.Errorf("it is left in %s", got)
		}
		if n := s.value(`SELECT count(*) FROM tidemark.scheduled`); n != "3" {
			t.Errorf("%s appends are left, want the payment and those of others", n)
		}
	})
	t.Run("timers of a key that is no word", func(t *testing.T) {
		t.Parallel()
		s := shopOf(t, payments)
		for _, name := range []string{"baskets/1:7/expiry", "baskets/2:71/expiry", "baskets/3:1:7/7"} {
			s.value(`SELECT tidemark.append_at('c1', now() + interval '1 day', '[{"type": "expired"}]', 'baskets')`)
			if _, err := s.Exec(t.Context(), `UPDATE tidemark.scheduled SET timer = $1 WHERE timer IS NULL`, name); err != nil {
				t.Fatal(err)
			}
		}
		s.erase(erasure.Request{Subjects: []string{"7"}})
		if got := s.value(`SELECT string_agg(timer, ' ' ORDER BY id) FROM tidemark.scheduled`); got != "baskets/2:71/expiry baskets/3:1:7/7" {
			t.Errorf("the timers %s are left", got)
		}
	})
	t.Run("campaign", func(t *testing.T) {
		t.Parallel()
		s := shopOf(t, payments)
		fill(s, append(about, others...)...)
		s.erase(erasure.Request{Campaign: "c1", Personal: true})
		if got := s.value(`SELECT string_agg(campaign_id, ',') FROM tidemark.scheduled WHERE events::text ~ 'planted'`); got != "" {
			t.Errorf("the campaigns %s have the fields", got)
		}
		c := s.erase(erasure.Request{Campaign: "c1"})
		if got := s.value(`SELECT count(*) FILTER (WHERE campaign_id = 'c1') || ' ' || count(*) FROM tidemark.scheduled`); got != "0 3" ||
			c.Changed["scheduled"] != 1 {
			t.Errorf("appends of the campaign and of all: %s, the certificate says %v", got, c.Changed)
		}
	})
}

// TestFormerNamesOfPersonalFieldsAreErased renames and moves a field from version to version.
func TestFormerNamesOfPersonalFieldsAreErased(t *testing.T) {
	t.Parallel()
	s := shopOf(t, `types:
  met:
    version: 4
    subject: [who.id]
    personal: [who.name, note]
    upcast:
      1: [{rename: {handle: nick}}, {rename: {nick: title}}]
      2: [{move: {title: who.name, id: who.id}}]
      3: [{remove: [old]}]
`)
	s.append("c",
		event.Event{Type: "met", Version: 1, Payload: []byte(`{"handle": "planted-1", "id": "c-17", "note": "planted-n", "left": 1}`)},
		event.Event{Type: "met", Version: 2, Payload: []byte(`{"title": "planted-2", "id": "c-17"}`)},
		event.Event{Type: "met", Version: 4, Payload: []byte(`{"who": {"name": "planted-4", "id": "c-17"}}`)})
	if c := s.erase(erasure.Request{Subjects: []string{"c-17"}, Personal: true}); c.Events != 3 {
		t.Errorf("%d events are erased", c.Events)
	}
	if got := s.value(`SELECT string_agg(payload::text, ' ' ORDER BY seq) FROM tidemark.journal WHERE event_type = 'met'`); got !=
		`{"id": "c-17", "left": 1} {"id": "c-17"} {"who": {"id": "c-17"}}` {
		t.Errorf("the payloads are %s", got)
	}
}

// TestAnErasedSubjectIsNotInOperationsOrStatistics has keys in requests and items of operations, and values
// that the planner has seen.
func TestAnErasedSubjectIsNotInOperationsOrStatistics(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for i := range 40 {
		s.order("shop", "ann", 10+i)
	}
	for _, sql := range []string{
		`INSERT INTO tidemark.operations (kind, request, actor, state) VALUES
			('requeued', '{"projection": "customers", "campaigns": ["planted-ann", "planted-bob"]}', 'anna', 'done')`,
		`INSERT INTO tidemark.operation_items VALUES (1, 1, 'planted-ann', 'customers', 7, 'failed', 'no planted-ann'),
			(1, 2, 'planted-bob', 'customers', 7, 'failed', 'no bob')`,
		`INSERT INTO tidemark.readers (topic, publisher, position, last_error) VALUES ('orders', 'a', 0, 'no planted-ann'),
			('orders', 'b', 0, 'no planted-ann')`,
		`INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state, scope)
			VALUES ('customers', 'default', -1, 'tidemark_views', '{}', 'active', 'journal')`,
		`INSERT INTO tidemark.resolutions (campaign_id, projection, seq, actor, reason)
			SELECT 'planted-ann', 'customers', position, 'anna', 'a test' FROM tidemark.journal`,
		`ANALYZE tidemark.journal, tidemark.event_tags, tidemark.operation_items, tidemark.readers, tidemark.resolutions`,
	} {
		if _, err := s.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	const statistics = `SELECT coalesce(string_agg(DISTINCT tablename, ' ' ORDER BY tablename), '') FROM pg_stats WHERE schemaname = 'tidemark'
		AND concat(most_common_vals, most_common_elems, histogram_bounds) ~ 'planted-ann'`
	if seen := s.value(statistics); seen != "event_tags journal operation_items readers resolutions" {
		t.Fatalf("the planner has seen it in %s alone", seen)
	}
	c := s.erase(erasure.Request{Subjects: []string{planted("ann")}})
	if left := s.value(statistics); left != "" {
		t.Errorf("the statistics of %s have it", left)
	}
	if found := s.everywhere(planted("ann")); found != nil {
		t.Errorf("it is found in %v", found)
	}
	if got := s.value(`SELECT o.request::text || ' ' || string_agg(i.campaign_id, ',' ORDER BY ord) FROM tidemark.operations o
		JOIN tidemark.operation_items i ON i.operation_id = o.id GROUP BY o.id`); got !=
		`{"campaigns": ["erased", "planted-bob"], "projection": "customers"} erased,planted-bob` {
		t.Errorf("the operation is %s", got)
	}
	if c.Changed["operations"] != 1 || c.Changed["operation_items"] != 1 {
		t.Errorf("the certificate says %v", c.Changed)
	}
}

// TestADeletedKeyDoesNotComeBack tries it as a program that has kept it, and as an older backup of the keys.
func TestADeletedKeyDoesNotComeBack(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sealer := s.sealed()
	s.orderSealed("shop", "ann", 2)
	before, err := journal.Get(t.Context(), s.Pool, "shop", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exec(t.Context(), `CREATE TABLE kept AS SELECT * FROM tidemark.keys`); err != nil {
		t.Fatal(err)
	}
	s.erase(erasure.Request{Subjects: []string{planted("ann")}})
	const back = `SELECT count(*) FROM tidemark.subject_keys((SELECT jsonb_agg(jsonb_build_object('id', id, 'subject', encode(subject, 'hex'),
		'wrapped', encode(wrapped, 'base64'), 'wrapped_by', wrapped_by)) FROM kept))`
	if n := s.value(back); n != "0" {
		t.Error("the key is taken back")
	}
	if _, err := s.Exec(t.Context(), `INSERT INTO tidemark.keys SELECT * FROM kept`); err != nil || s.value(`SELECT count(*) FROM tidemark.keys`) != "0" {
		t.Errorf("a backup brings the key back: %v", err)
	}
	if _, err := s.Exec(t.Context(), `ALTER TABLE tidemark.keys DISABLE TRIGGER USER; INSERT INTO tidemark.keys SELECT * FROM kept;
		ALTER TABLE tidemark.keys ENABLE TRIGGER USER`); err != nil { // as a transaction with an old snapshot may
		t.Fatal(err)
	}
	events := []event.Event{before}
	if _, err := s.catalogue.Open(t.Context(), s.Pool, events); err != nil || !events[0].Erased() {
		t.Errorf("the event opens: %s, %v", events[0].Payload, err)
	}
	s.orderSealed("shop", "ann", 4) // the subject has another key
	if n := s.value(`SELECT count(*) FROM tidemark.keys k WHERE NOT EXISTS (SELECT FROM kept o WHERE o.id = k.id)`); n != "1" {
		t.Errorf("the subject has %s new keys", n)
	}
	last, err := journal.Get(t.Context(), sealer.Reading(s.Pool), "shop", 3)
	if err != nil || !strings.Contains(string(last.Payload), planted("ann")) {
		t.Errorf("the new event is %s, %v", last.Payload, err)
	}
}

// TestPagesAreDroppedWhileAnErasureRuns looks at the mark from the second batch of a large campaign.
func TestPagesAreDroppedWhileAnErasureRuns(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	if _, err := s.Exec(t.Context(), `SELECT tidemark.append('shop', jsonb_agg(jsonb_build_object('type', 'ordered', 'version', 2,
		'payload', jsonb_build_object('customer', 'planted-' || i, 'amount', i)))) FROM generate_series(1, 1200) i`); err != nil {
		t.Fatal(err)
	}
	before := s.value(`SELECT last_value FROM tidemark.erased`)
	s.erase(erasure.Request{Campaign: "shop"})
	if got := s.value(`SELECT last_value - $1::bigint >= 4 FROM tidemark.erased`, before); got != "true" {
		t.Errorf("the mark has moved to %s, want a step for each of three batches and one at the end", s.value(`SELECT last_value FROM tidemark.erased`))
	}
}

const bookings = `types:
  booked:
    subject: [passengers.id, of.contacts]
    personal: [passengers.id, passengers.name]
`

// TestSubjectsInArraysAreFound has a subject in elements of arrays, in arrays in arrays and as an element.
func TestSubjectsInArraysAreFound(t *testing.T) {
	t.Parallel()
	s := shopOf(t, bookings)
	book := func(payload string) event.Event { return event.Event{Type: "booked", Payload: []byte(payload)} }
	s.append("oak",
		book(`{"n": 1, "passengers": [{"id": "p-1", "name": "planted-one"}, "x", {"id": "p-2", "name": "planted-two"}]}`),
		book(`{"n": 2, "passengers": [[{"id": 7, "name": "planted-x"}, {"id": "p-2", "name": "planted-two"}]]}`),
		book(`{"n": 3, "of": {"contacts": ["p-3", "p-2"]}}`), book(`{"n": 4, "of": [{"contacts": "p-2"}]}`),
		book(`{"n": 5, "passengers": [{"id": "p-3", "name": "planted-three"}], "of": {"contacts": []}}`), book(`{"n": 6, "passengers": {}}`))
	if _, err := s.Exec(t.Context(), `SELECT tidemark.append_at('elm', now() + interval '1 day',
		'[{"type": "booked", "payload": {"passengers": [{"id": "p-2"}]}}]')`); err != nil {
		t.Fatal(err)
	}
	r := erasure.Request{Subjects: []string{"p-2"}, Catalogue: s.catalogue}
	if found, err := erasure.Count(t.Context(), s.Pool, r); err != nil || found.Events != 4 || found.Scheduled != 1 {
		t.Errorf("counted %+v, %v", found, err)
	}
	c := s.erase(erasure.Request{Subjects: []string{"p-2"}, Personal: true})
	if c.Events != 4 || c.Changed["scheduled"] != 1 {
		t.Errorf("%d events, %v", c.Events, c.Changed)
	}
	const left = `SELECT string_agg(payload::text, ' ' ORDER BY seq) FROM tidemark.journal WHERE event_type = 'booked'`
	if got, want := s.value(left), `{"n": 1, "passengers": [{}, "x", {}]} {"n": 2, "passengers": [[{}, {}]]} `+
		`{"n": 3, "of": {"contacts": ["p-3", "p-2"]}} {"n": 4, "of": [{"contacts": "p-2"}]} `+
		`{"n": 5, "of": {"contacts": []}, "passengers": [{"id": "p-3", "name": "planted-three"}]} {"n": 6, "passengers": {}}`; got != want {
		t.Errorf("left is %s\nwant    %s", got, want)
	}
	if c := s.erase(erasure.Request{Subjects: []string{"p-2"}}); c.Events != 4 { // two say nothing of it any more
		t.Errorf("then %d whole events are erased", c.Events)
	}
	if found := s.everywhere("p-2"); found != nil {
		t.Errorf("p-2 is found in %v", found)
	}
}

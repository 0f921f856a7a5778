package erasure_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const notesFile = `-- projection: notes
-- version: 1

CREATE TABLE notes (campaign_id text, seq bigint, erased boolean NOT NULL, PRIMARY KEY (campaign_id, seq));

-- on: noted
INSERT INTO notes VALUES (event.campaign_id, event.seq, coalesce(event.metadata ? '$erased', false));
`

// TestProjectionsTellErasedEventsApart has handlers, an SQL file, and an upcaster that needs a payload.
func TestProjectionsTellErasedEventsApart(t *testing.T) {
	t.Parallel()
	needing := func(payload json.RawMessage) (json.RawMessage, error) {
		if string(payload) == "{}" {
			return nil, errors.New("it has seen an empty payload")
		}
		return payload, nil
	}
	types, err := catalogue.New(catalogue.EventType{
		Name: "noted", Version: 2, Upcast: map[int]catalogue.Upcaster{1: catalogue.Convert(needing)},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{Pool: pgtest.New(t), t: t, catalogue: types}
	s.append("oak", event.Event{Type: "noted", Version: 1, Tags: []string{"by=ann"}, Payload: []byte(`{"text": "planted"}`)},
		event.Event{Type: "noted", Version: 1, Payload: []byte(`{"text": "planted"}`)})
	s.erase(erasure.Request{Subjects: []string{"by=ann"}})
	told := map[int64]string{}
	handlers := projection.Handlers{
		Name: "told", Version: 1, Tables: `CREATE TABLE told (campaign_id text PRIMARY KEY)`,
		On: []projection.Handler{
			projection.Handle("noted", func(_ context.Context, _ *projection.Group, e event.Event, _ struct{}) error {
				if told[e.Seq] = string(e.Payload); e.Erased() {
					told[e.Seq] += " erased"
				}
				return nil
			}),
		},
	}
	file, err := sqlfile.Load(fstest.MapFS{"notes.sql": {Data: []byte(notesFile)}}, "notes.sql")
	if err != nil {
		t.Fatal(err)
	}
	p, err := projector.New(projector.Config{
		Pool: s.Pool, Projections: []projection.Projection{handlers, file}, Catalogue: types, NoListen: true,
	})
	if err == nil {
		_, err = p.Drain(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || told[1] != "{} erased" || told[2] != `{"text": "planted"}` {
		t.Errorf("the handler was told %v", told)
	}
	if got := s.value(`SELECT string_agg(seq || ' ' || erased, ', ' ORDER BY seq) FROM tidemark_views.notes`); got != "1 true, 2 false" {
		t.Errorf("the file was told %s", got)
	}
	if n := s.value(`SELECT count(*) FROM tidemark.failed`); n != "0" {
		t.Errorf("%s failures: %s", n, s.value(`SELECT max(error_message) FROM tidemark.failed`))
	}
}

// TestWithoutTheSecretOfTheInstallationErasuresFail loses the row, and restores it.
func TestWithoutTheSecretOfTheInstallationErasuresFail(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order("oak", "ann", 2)
	if _, err := s.Exec(t.Context(), `CREATE TABLE kept AS TABLE tidemark.erasure_secret; DELETE FROM tidemark.erasure_secret`); err != nil {
		t.Fatal(err)
	}
	r := erasure.Request{Subjects: []string{planted("ann")}, Catalogue: s.catalogue, By: "anna", Reason: "a request"}
	_, err := erasure.Erase(t.Context(), s.Pool, r)
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "TM018" {
		t.Errorf("an erasure without the secret: %v", err)
	}
	if got := s.value(`SELECT count(*) FILTER (WHERE payload::text LIKE '%planted-ann%') || ' ' || count(*) FROM tidemark.journal`); got != "1 1" {
		t.Errorf("events that are left, of all: %s", got)
	}
	if _, err := s.Exec(t.Context(), `INSERT INTO tidemark.erasure_secret TABLE kept`); err != nil {
		t.Fatal(err)
	}
	if c := s.erase(r); c.Events != 1 {
		t.Errorf("%d events are erased with the secret", c.Events)
	}
}

// TestAnErasureOfPersonalFieldsGoesOnWithTheFieldsOfBothCalls has a killed call whose catalogue had another field.
func TestAnErasureOfPersonalFieldsGoesOnWithTheFieldsOfBothCalls(t *testing.T) {
	t.Parallel()
	s := shopOf(t, `types: {paid: {subject: [id], personal: [name]}}`)
	for range 2 {
		s.append("oak", event.Event{Type: "paid", Payload: []byte(`{"id": "c-17", "name": "planted-1", "city": "planted-2", "n": 7}`)})
	}
	s.value(`SELECT id FROM tidemark.begin_erasure(NULL, '{c-17}', '{"paid": ["id"]}', '{"paid": ["city"]}', 'otto', 'killed', true)`)
	s.value(`SELECT cardinality(tidemark.erase(1, 1, 'oak', '{1}', 10))`)
	s.expire()
	c := s.erase(erasure.Request{Subjects: []string{"c-17"}, Personal: true})
	if c.Erasure != 1 {
		t.Errorf("it is erasure %d", c.Erasure)
	}
	if got := s.value(`SELECT string_agg(payload::text, ' ' ORDER BY seq) FROM tidemark.journal WHERE event_type = 'paid'`); got !=
		`{"n": 7, "id": "c-17"} {"n": 7, "id": "c-17"}` {
		t.Errorf("the events are %s", got)
	}
}

// TestAnErasureGoesOnWithMoreFieldsWithoutTouchingItsEvents has two calls killed, each with a field more than
// the one before, and each after a part of the events.
func TestAnErasureGoesOnWithMoreFieldsWithoutTouchingItsEvents(t *testing.T) {
	t.Parallel()
	s := shopOf(t, `types: {paid: {subject: [id], personal: [phone]}}`)
	for range 3 {
		s.append("oak", event.Event{Type: "paid", Payload: []byte(`{"id": "c-17", "city": "planted-1", "name": "planted-2",
			"phone": "planted-3", "n": 7}`)})
	}
	begin := func(field string) (touched string) {
		tx, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
		if _, err = tx.Exec(t.Context(), `SELECT FROM tidemark.begin_erasure(NULL, '{c-17}', '{"paid": ["id"]}',
				jsonb_build_object('paid', jsonb_build_array($1::text)), 'otto', 'killed', true)`, field); err == nil {
			err = tx.QueryRow(t.Context(), `SELECT count(*)::text FROM tidemark.erased_events
				WHERE xmin = pg_current_xact_id()::xid`).Scan(&touched)
		}
		if err == nil {
			err = tx.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return touched
	}
	begin("city")
	s.value(`SELECT cardinality(tidemark.erase(1, 1, 'oak', '{1,2}', 10))`)
	if _, err := s.Exec(t.Context(), `INSERT INTO tidemark.erased_events (erasure, position, event_id)
		SELECT 1, 1000 + i, gen_random_uuid() FROM generate_series(1, 2000) i`); err != nil {
		t.Fatal(err)
	}
	s.expire()
	if n := begin("name"); n != "0" {
		t.Errorf("the second call changes %s rows of events before it erases any", n)
	}
	if n := s.value(`SELECT cardinality(tidemark.erase(1, 2, 'oak', NULL, 1))`); n != "1" {
		t.Errorf("the second call erases %s events, want the first one again", n)
	}
	if got := s.value(`SELECT string_agg(tidemark.is_erased(j.position, j.event_type, f.personal)::text, ' ' ORDER BY seq, f.personal)
		FROM tidemark.journal j CROSS JOIN (VALUES ('{"paid": ["city"]}'::jsonb), ('{"paid": ["name"]}')) f (personal)
		WHERE j.event_type = 'paid'`); got != "true true true false false false" {
		t.Errorf("city and name are erased of the events: %s", got)
	}
	s.expire()
	if n := begin("name"); n != "0" {
		t.Errorf("a call that adds nothing changes %s rows of events", n)
	}
	s.expire()
	c := s.erase(erasure.Request{Subjects: []string{"c-17"}, Personal: true})
	if c.Erasure != 1 || c.Events != 6 { // each change of an event counts
		t.Errorf("it is erasure %d with %d changes of events", c.Erasure, c.Events)
	}
	if got := s.value(`SELECT string_agg(DISTINCT payload::text, ' ') FROM tidemark.journal WHERE event_type = 'paid'`); got !=
		`{"n": 7, "id": "c-17"}` {
		t.Errorf("the events are %s", got)
	}
	if _, err := erasure.Erase(t.Context(), s.Pool, erasure.Request{
		Subjects: []string{"c-17"}, Personal: true, Catalogue: s.catalogue, By: "anna", Reason: "again",
	}); !errors.Is(err, erasure.ErrNothing) {
		t.Errorf("once more: %v", err)
	}
}

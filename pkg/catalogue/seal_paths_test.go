package catalogue_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestPersonalFieldsOfArraysAreSealed has elements without the field, arrays in arrays, and a deleted key.
func TestPersonalFieldsOfArraysAreSealed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	sealer := sealerWith(t, wrappingKey)
	plain, err := catalogue.New(catalogue.EventType{
		Name: "booked", Subject: []string{"customer"}, Personal: []string{"guests.name", "guests.of.phone", "notes", "$actor"},
	})
	if err != nil {
		t.Fatal(err)
	}
	types := plain.Sealed(sealer)
	const payload = `{"customer":"c-1","guests":[{"age":7,"name":"planted-1"},"x",[{"name":"planted-2"}],` +
		`{"of":[{"phone":"planted-3"},{"phone":{"home":"planted-4"}}]}],"notes":["planted-5",1.50]}`
	add := func(payload string) error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{Catalogue: types}.Append(t.Context(), tx, "c", journal.Any, event.Event{
				Type: "booked", Actor: "till", Payload: []byte(payload),
			})
			return err
		})
	}
	if err := add(payload); err != nil {
		t.Fatal(err)
	}
	if err := add(`{"guests":[{"age":7},{"name":"planted-6"}]}`); err == nil || !strings.Contains(err.Error(), "guests.name") {
		t.Errorf("without a subject: %v", err)
	}
	if got := query[string](t, pool, `SELECT payload::text FROM tidemark.journal`); strings.Contains(got, "planted") || strings.Count(got, "$sealed") != 5 {
		t.Errorf("the journal has %s", got)
	}
	open := func() string {
		t.Helper()
		e, err := journal.Get(t.Context(), sealer.Reading(pool), "c", 1)
		if err != nil {
			t.Fatal(err)
		}
		return string(e.Payload)
	}
	var want, got any
	if err := errors.Join(json.Unmarshal([]byte(payload), &want), json.Unmarshal([]byte(open()), &got)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("it opens as %v, want %v, error %v", got, want, err)
	}
	exec(t, pool, `DELETE FROM tidemark.keys; SELECT nextval('tidemark.erased')`)
	const left = `{"guests":[{"age":7},"x",[{}],{"of":[{},{}]}],"customer":"c-1"}`
	if err := errors.Join(json.Unmarshal([]byte(left), &want), json.Unmarshal([]byte(open()), &got)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("without its key it opens as %v, want %v, error %v", got, want, err)
	}
}

func TestPathsOfPersonalFieldsAreChecked(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"guests[].name": `write "guests.name"`, "guests[*].name": `write "guests.name"`, "guests[0]": `write "guests"`,
		"$actors": "$actor, $aggregate_id", "$actor.name": "$actor, $aggregate_id", "$tags.": "empty name",
		"a..b": "empty name", "$tags.city": "", "$tags": "", "$metadata.user.ip": "", "$metadata": "", "$aggregate_id": "",
	} {
		_, err := catalogue.New(catalogue.EventType{Name: "x", Personal: []string{path}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// TestFormerNamesArePersonalToo renames, moves, and moves into a personal object.
func TestFormerNamesArePersonalToo(t *testing.T) {
	t.Parallel()
	c, err := yamlfile.Load(fstest.MapFS{"c.yaml": {Data: []byte(`types:
  met:
    version: 4
    subject: [who.id]
    personal: [who, mail.work]
    upcast:
      1: [{rename: {handle: nick}}, {rename: {nick: title}}]
      2: [{move: {title: who.name, id: who.id, post: mail}}]
      3: [{remove: [old]}]
`)}}, "c.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(slices.Values(c.Personal()["met"]))
	if want := []string{"handle", "id", "mail.work", "nick", "post.work", "title", "who"}; !slices.Equal(got, want) {
		t.Errorf("personal are %v, want %v", got, want)
	}
	if got := c.Subjects()["met"]; !slices.Equal(got, []string{"who.id", "id"}) {
		t.Errorf("subjects are %v", got)
	}
}

// TestTheFirstSubjectThatSaysWhoNamesThePerson has fields that say nothing, and subjects in arrays, which name no key.
func TestTheFirstSubjectThatSaysWhoNamesThePerson(t *testing.T) {
	t.Parallel()
	plain, err := catalogue.New(
		catalogue.EventType{Name: "booked", Subject: []string{"guests.id", "customer.id", "agent"}, Personal: []string{"note"}},
		catalogue.EventType{Name: "boarded", Subject: []string{"guests.id"}, Personal: []string{"note"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	pool := pgtest.New(t)
	types := plain.Sealed(sealerWith(t, wrappingKey))
	for payload, want := range map[string]string{
		`{"note": "x", "customer": {"id": "c-1"}, "agent": "a-1"}`:  "c-1",
		`{"note": "x", "customer": {"id": 17}, "agent": "a-2"}`:     "17",
		`{"note": "x", "customer": {"id": null}, "agent": "a-3"}`:   "a-3",
		`{"note": "x", "customer": {"id": ""}, "agent": "a-4"}`:     "a-4",
		`{"note": "x", "customer": {"id": 1.5}, "agent": "a-5"}`:    "a-5",
		`{"note": "x", "customer": "c-6", "agent": "a-6"}`:          "a-6",
		`{"note": "x", "guests": [{"id": "g-7"}], "agent": "a-7"}`:  "a-7",
		`{"note": "x", "customer": {"id": true}, "agent": ["a-8"]}`: "",
		`{"note": "x", "guests": [{"id": "g-9"}]}`:                  "",
	} {
		for _, eventType := range []string{"booked", "boarded"} {
			want := map[bool]string{true: want}[eventType == "booked"] // an array names nobody
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := journal.Journal{Catalogue: types}.Append(t.Context(), tx, "c", journal.Any, event.Event{
					Type: eventType, Payload: []byte(payload),
				})
				return err
			})
			if refused := want == ""; refused != (err != nil) || refused && !strings.Contains(err.Error(), "no subject (guests.id") {
				t.Errorf("%s %s: %v, want the subject %q", eventType, payload, err, want)
			}
			if n := query[int](t, pool, `SELECT count(*) FROM tidemark.keys WHERE subject = sha256(convert_to($1, 'UTF8'))`,
				want); want != "" && n != 1 {
				t.Errorf("%s %s: %q has %d keys", eventType, payload, want, n)
			}
		}
	}
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.keys`); n != 7 {
		t.Errorf("%d keys of 7 persons", n)
	}
}

package erasure_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// TestAFieldThatIsDeclaredPersonalLaterIsErased has subjects that are personal themselves, so that nothing in
// the event says whose it is once it was erased.
func TestAFieldThatIsDeclaredPersonalLaterIsErased(t *testing.T) {
	t.Parallel()
	declared := func(personal string) *catalogue.Catalogue {
		c, err := yamlfile.Load(fstest.MapFS{"c.yaml": {Data: []byte(
			"types: {called: {subject: [who], personal: [" + personal + "]}}")}}, "c.yaml")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, sealed := range []bool{false, true} {
		for _, archived := range []bool{false, true} {
			for name, later := range map[string]erasure.Request{
				"personal": {Personal: true, Catalogue: declared("who, name, phone")}, "whole": {Catalogue: declared("who, name, phone")},
				"without the name": {Personal: true, Catalogue: declared("phone")},
			} {
				t.Run(fmt.Sprintf("%s, sealed %t, archived %t", name, sealed, archived), func(t *testing.T) {
					t.Parallel()
					s, a := newShop(t), newAttic(t)
					s.catalogue = declared("who, name")
					if sealed {
						s.sealed()
					}
					if err := pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
						_, err := journal.Journal{Catalogue: s.catalogue}.Append(t.Context(), tx, "oak", journal.Any,
							event.Event{Type: "called", Payload: []byte(`{"who": "ann@example.com", "name": "Ann Example",
								"phone": "+49 30 1234567", "minutes": 7}`)},
							event.Event{Type: "called", Payload: []byte(`{"who": "bob@example.com", "phone": "+49 30 7654321"}`)})
						return err
					}); err != nil {
						t.Fatal(err)
					}
					first := s.erase(erasure.Request{Subjects: []string{"ann@example.com"}, Personal: true})
					if got := s.value(`SELECT payload FROM tidemark.journal WHERE seq = 1`); got !=
						`{"phone": "+49 30 1234567", "minutes": 7}` {
						t.Fatalf("after the first erasure it says %s", got)
					}
					if archived {
						s.archived(a, "oak")
					}
					later.Subjects, later.By, later.Reason, later.Archive = []string{"ann@example.com"}, "otto", "phones too", a
					found, err := erasure.Count(t.Context(), s.Pool, later)
					if err != nil || found.Events != 1 || len(found.Unknown) > 0 {
						t.Errorf("counted %+v, %v", found, err)
					}
					c, err := erasure.Erase(t.Context(), s.Pool, later)
					if err != nil || c.Events != 1 || c.Erasure == first.Erasure {
						t.Fatalf("%+v, %v", c, err)
					}
					if tables := s.everywhere("1234567"); tables != nil {
						t.Errorf("the number is in %v", tables)
					}
					if tables := s.everywhere("7654321"); len(tables) == 0 {
						t.Error("bob's number is erased")
					}
					if _, err := erasure.Erase(t.Context(), s.Pool, later); !errors.Is(err, erasure.ErrNothing) ||
						!strings.Contains(err.Error(), "is left that is not erased") {
						t.Errorf("a third erasure: %v", err)
					}
				})
			}
		}
	}
}

func TestACertificateNamesSubjectsThatNothingWasFoundOf(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order("oak", "ann", 2)
	s.order("oak", "bob", 2)
	s.erase(erasure.Request{Subjects: []string{planted("bob")}})
	c := s.erase(erasure.Request{Subjects: []string{planted("ann"), planted("bob"), "customer=" + planted("bob"), "nobody"}})
	if !slices.Equal(c.Unknown, []string{"nobody"}) {
		t.Errorf("nothing was found of %q", c.Unknown)
	}
}

// TestTheSearchFindsValuesInOtherWords has the erased values in longer text, and in other cases.
func TestTheSearchFindsValuesInOtherWords(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, value := range []string{"ann@example.com", "Zoë Ångström-O'Neill", "4930123456", "one two three four five six seven eight nine"} {
		if _, err := s.Exec(t.Context(), `SELECT tidemark.append('oak', jsonb_build_array(jsonb_build_object('type', 'noted',
			'payload', jsonb_build_object('is', $1::text))))`, value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Exec(t.Context(), `SELECT tidemark.append('oak',
		'[{"type": "noted", "payload": {"short": "Bob", "six": 654321, "seven": 7654321}}]')`); err != nil {
		t.Fatal(err)
	}
	c := s.erase(erasure.Request{Campaign: "oak"})
	for text, want := range map[string]int64{
		"Bob": 0, "654321": 0, "no 7654321": 1, "Mail to <Ann@Example.COM>.": 1, "call ZOË  ÅNGSTRÖM O'NEILL, please": 1, "zoë ångström": 0, "tel:4930123456;": 1,
		"14930123456": 0, "xann@example.com": 0, "ann example com": 1, "“ann@example.com”": 1,
		"One, two, three, four, five, six, seven, eight": 1, "one two three four": 0, `a\nann@example.com`: 1,
	} {
		if _, err := s.Exec(t.Context(), `TRUNCATE tidemark.failure_log`); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Exec(t.Context(), `INSERT INTO tidemark.failure_log (act, consumer_group, actor, reason)
			VALUES ('paused', 'default', 'anna', $1)`, text); err != nil {
			t.Fatal(err)
		}
		if r := s.verify(c); r.Rows != want {
			t.Errorf("in %q the search finds %d rows, want %d", text, r.Rows, want)
		}
	}
}

package erasure_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// sealed has the shop seal the personal fields of its events.
func (s *shop) sealed() *catalogue.Sealer {
	s.t.Helper()
	wrappers, err := catalogue.ParseWrappingKeys("a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	if err != nil {
		s.t.Fatal(err)
	}
	sealer, err := catalogue.NewSealer(wrappers...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.catalogue = s.catalogue.Sealed(sealer)
	return sealer
}

// orderSealed appends an order, which has the customer's planted text in personal fields alone. The
// subject is one of them.
func (s *shop) orderSealed(campaign, customer string, amount int) {
	s.t.Helper()
	e := event.Event{Type: "ordered", Version: 2 - amount%2, Payload: fmt.Appendf(nil,
		`{%q: %q, "email": "%[2]s@example.com", "amount": %d}`, []string{"customer", "name"}[amount%2], planted(customer), amount)}
	if err := pgx.BeginFunc(s.t.Context(), s.Pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{Catalogue: s.catalogue}.Append(s.t.Context(), tx, campaign, journal.Any, e)
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
}

func TestErasingASubjectDeletesItsKeyAndReadModelsForget(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]erasure.Request{
		"payloads":              {Subjects: []string{planted("ann"), "nobody"}},
		"personal fields alone": {Subjects: []string{planted("ann")}, Personal: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			sealer := s.sealed()
			s.work()
			for i := range 4 {
				s.orderSealed(fmt.Sprint("shop", i), "ann", 10+i)
				s.orderSealed(fmt.Sprint("shop", i), "bob", 10+i)
			}
			s.within("read models are open", func() bool {
				return s.value(`SELECT count(*) FROM tidemark_views.orders WHERE customer = $1`, planted("ann")) == "4" &&
					s.value(`SELECT count(*) FROM tidemark_views.customers`) == "2" && s.value(`SELECT count(*) FROM tidemark_views.log`) == "8"
			})
			for _, table := range s.everywhere(planted("ann")) {
				if !slices.Contains([]string{"shops", "customers", "orders", "log"}, strings.TrimPrefix(table, "tidemark_views.")) {
					t.Errorf("%s has the plain text", table)
				}
			}
			stored := map[int64]event.Event{} // what a backup without keys has
			for e, err := range journal.ReadAll(t.Context(), s.Pool, 0) {
				if err != nil {
					t.Fatal(err)
				}
				stored[e.Position] = e
			}
			r.Catalogue, r.By, r.Reason = s.catalogue, "anna", "again"
			if found, err := erasure.Count(t.Context(), s.Pool, r); err != nil || found.Events != 4 || found.Keys != 1 {
				t.Errorf("counted %+v, %v", found, err)
			}
			c := s.erase(r)
			if c.Events != 4 || c.Keys != 1 {
				t.Errorf("the certificate tells of %d events and %d keys", c.Events, c.Keys)
			}
			if report := s.verify(c); report.Rows != 0 {
				t.Errorf("the search finds %+v", report.Searched)
			}
			if found := s.everywhere(planted("ann")); len(found) > 0 {
				t.Errorf("%s has the erased text", found)
			}
			if n := s.value(`SELECT count(*) FROM tidemark_views.orders WHERE customer = $1`, planted("bob")); n != "4" {
				t.Errorf("bob has %s orders", n)
			}
			erased := 0
			for _, e := range stored {
				events := []event.Event{e}
				if _, err := s.catalogue.Open(t.Context(), s.Pool, events); err != nil {
					t.Fatal(err)
				}
				if events[0].Erased() {
					erased++
				}
				if strings.Contains(string(events[0].Payload), "planted-ann") || strings.Contains(string(events[0].Payload), "$sealed") {
					t.Errorf("the copy reads %s", events[0].Payload)
				}
			}
			if erased != 4 {
				t.Errorf("%d events of the copy are erased, want 4", erased)
			}
			n := 0
			for e, err := range journal.ReadAll(t.Context(), sealer.Reading(s.Pool), 0) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Erased() {
					n++
				}
			}
			if n != 4 {
				t.Errorf("%d events are erased, want 4", n)
			}
			if _, err := erasure.Erase(t.Context(), s.Pool, r); !errors.Is(err, erasure.ErrNothing) {
				t.Errorf("a second erasure: %v", err)
			}
		})
	}
}

func TestAKeyIsErasedEvenIfNoEventIsLeft(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.sealed()
	s.orderSealed("shop", "ann", 2)
	s.erase(erasure.Request{Campaign: "shop"})
	if c := s.erase(erasure.Request{Subjects: []string{planted("ann")}}); c.Keys != 1 || c.Events != 0 {
		t.Errorf("the certificate tells of %d events and %d keys", c.Events, c.Keys)
	}
	if n := s.value(`SELECT count(*) FROM tidemark.keys`); n != "0" {
		t.Errorf("%s keys", n)
	}
}

func TestACertificateNamesSubjectsWithoutAKey(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.sealed()
	s.orderSealed("shop", "ann", 2)
	s.order("shop", "bob", 2)
	tag := "customer=" + planted("bob")
	r := erasure.Request{Subjects: []string{tag, planted("ann")}, Catalogue: s.catalogue}
	found, err := erasure.Count(t.Context(), s.Pool, r)
	if c := s.erase(r); err != nil || !slices.Equal(found.Keyless, []string{tag}) || !slices.Equal(c.Keyless, found.Keyless) {
		t.Errorf("found %v, certified %v, want %s alone; error %v", found.Keyless, c.Keyless, tag, err)
	}
	if n := s.value(`SELECT count(*) FROM tidemark.keys`); n != "1" {
		t.Errorf("%s keys are left, want bob's", n)
	}
}

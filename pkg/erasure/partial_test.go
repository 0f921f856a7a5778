package erasure_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/erasure"
)

// TestALockedCampaignIsLeftForTheEnd has an append that stays open, to the campaign that comes first.
func TestALockedCampaignIsLeftForTheEnd(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for i := range 20 {
		s.order(fmt.Sprint("shop", i), "ann", 2)
	}
	locks := func(campaign string) (unlock func()) {
		tx, err := s.Begin(t.Context())
		if err == nil {
			_, err = tx.Exec(t.Context(), `SELECT tidemark.lock_campaign($1)`, campaign)
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }
	}
	unlock0, unlock1 := locks("shop0"), locks("shop11")
	r := erasure.Request{
		Subjects: []string{planted("ann")}, Catalogue: s.catalogue, By: "anna", Reason: "a request", Patience: time.Millisecond,
	}
	_, err := erasure.Erase(t.Context(), s.Pool, r)
	partial, ok := errors.AsType[*erasure.PartialError](err)
	if !ok || !slices.Equal(partial.Left, []string{"shop0", "shop11"}) || partial.Certificate.Events != 18 {
		t.Fatalf("left are %+v: %v", partial, err)
	}
	for _, says := range []string{"18 events are erased", "2 campaigns are left", `"shop0" "shop11"`, "erase again"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("the error does not say %q: %v", says, err)
		}
	}
	if got := s.states(); got != "1 interrupted anna\n" {
		t.Errorf("the list says %s", got)
	}
	if report, err := erasure.Verify(t.Context(), s.Pool, s.Pool, *partial.Certificate); err != nil || report.Ended || report.Finished() {
		t.Errorf("the search says %+v, %v", report, err)
	}
	unlock1()
	r.Patience = time.Minute
	s.within("the call comes back", func() bool { // at once, and then when the lock is gone
		ended := make(chan *erasure.Certificate, 1)
		go func() {
			c, err := erasure.Erase(t.Context(), s.Pool, r)
			if err != nil {
				t.Error(err)
			}
			ended <- c
		}()
		s.within("the other is erased", func() bool {
			return s.value(`SELECT count(*) FROM tidemark.erased_events`) == "19"
		})
		unlock0()
		c := <-ended
		return c != nil && c.Events == 20 && c.Erasure == 1 && len(c.Left) == 0
	})
	if found := s.everywhere(planted("ann")); found != nil {
		t.Errorf("ann is found in %v", found)
	}
}

// TestAnErasureThatStopsSaysWhatItHasDone has a campaign whose object is not there.
func TestAnErasureThatStopsSaysWhatItHasDone(t *testing.T) {
	t.Parallel()
	s, a := newShop(t), newAttic(t)
	s.order("elm", "ann", 2)
	s.order("oak", "ann", 2)
	s.archived(a, "oak")
	r := erasure.Request{Subjects: []string{"customer=" + planted("ann")}, By: "anna", Reason: "a request", Archive: newAttic(t)}
	_, err := erasure.Erase(t.Context(), s.Pool, r)
	partial, ok := errors.AsType[*erasure.PartialError](err)
	if !ok || partial.Certificate.Events != 1 || len(partial.Certificate.Key) != 32 {
		t.Fatalf("%+v: %v", partial, err)
	}
	r.Archive = a
	c, err := erasure.Erase(t.Context(), s.Pool, r)
	if err != nil || c.Events != 2 || c.Erasure != 1 || string(c.Key) != string(partial.Certificate.Key) {
		t.Errorf("%+v: %v", c, err)
	}
}

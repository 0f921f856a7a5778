package erasure_test

import (
	"errors"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/erasure"
)

// TestAForgottenErasureIsAbandoned has a call that was killed after the first of two campaigns, before it had
// any read model made anew.
func TestAForgottenErasureIsAbandoned(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.work()
	s.order("oak", "ann", 2)
	s.order("oak", "failing", 2)
	s.order("elm", "bob", 2)
	s.within("all is applied or has failed", func() bool {
		return s.value(`SELECT count(*) FROM tidemark_views.log`)+s.value(`SELECT count(*) FROM tidemark.failed`) == "32"
	})
	r := erasure.Request{Subjects: []string{planted("ann"), planted("failing"), planted("bob")}}
	s.value(`SELECT id FROM tidemark.begin_erasure(NULL, $1, '{"ordered": ["customer", "name"]}', NULL, 'anna', 'killed', true)`,
		r.Subjects)
	if n := s.value(`SELECT array_length(tidemark.erase(1, 1, 'oak', '{1,2}', 10), 1)`); n != "2" {
		t.Fatalf("%s events are erased", n)
	}
	held := &erasure.HeldError{}
	if _, err := erasure.Abandon(t.Context(), s.Pool, 1, "otto", "it is lost"); !errors.As(err, &held) || held.Holder != "anna" {
		t.Errorf("while it runs: %v", err)
	}
	s.expire()
	byNumber := erasure.Certificate{Erasure: 1}
	if report, err := erasure.Verify(t.Context(), s.Pool, s.Pool, byNumber); err != nil || report.Ended || report.Rows < 4 {
		t.Errorf("a search by number finds %+v, %v", report, err)
	}
	if _, err := erasure.Abandon(t.Context(), s.Pool, 1, "otto", " "); !errors.Is(err, erasure.ErrConflict) {
		t.Errorf("without a reason: %v", err)
	}
	c, err := erasure.Abandon(t.Context(), s.Pool, 1, "otto", "it is lost")
	if err != nil || !c.Abandoned || c.Erasure != 1 || c.Events != 2 || c.By != "otto" || c.EndedAt.IsZero() {
		t.Fatalf("%+v, %v", c, err)
	}
	if report := s.verify(c); report.Rows != 0 || !report.Ended || !report.Abandoned || !report.Finished() {
		t.Errorf("the search finds %+v", report)
	}
	for customer, left := range map[string]bool{"ann": false, "failing": false, "bob": true} {
		if found := s.everywhere(planted(customer)); (found != nil) != left {
			t.Errorf("%s is found in %v", customer, found)
		}
	}
	if got := s.states(); got != "1 abandoned otto\n" {
		t.Errorf("the list says %s", got)
	}
	if n := s.value(`SELECT count(*) FROM tidemark.not_archivable('{oak}') WHERE reason LIKE 'erasure %'`); n != "0" {
		t.Error("it still keeps campaigns from the archive")
	}
	if _, err := erasure.Abandon(t.Context(), s.Pool, 1, "otto", "again"); !errors.Is(err, erasure.ErrNothing) {
		t.Errorf("again: %v", err)
	}
	if _, err := erasure.Verify(t.Context(), s.Pool, s.Pool, byNumber); !errors.Is(err, erasure.ErrKey) {
		t.Errorf("the key of an erasure that has ended: %v", err)
	}
	if c := s.erase(r); c.Erasure != 2 || c.Events != 1 {
		t.Errorf("the same request erases %d events as erasure %d", c.Events, c.Erasure)
	}
}

// TestTheSameRequestTakesAnAbandonedErasureBack has a call that was killed while it abandoned one.
func TestTheSameRequestTakesAnAbandonedErasureBack(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order("oak", "ann", 2)
	r := erasure.Request{Subjects: []string{planted("ann")}}
	s.killed(r)
	s.value(`SELECT generation FROM tidemark.abandon_erasure(1, 'otto', 'it is lost')`)
	s.expire()
	if c := s.erase(r); c.Erasure != 1 || c.Events != 1 || c.Abandoned {
		t.Errorf("%+v", c)
	}
	if got := s.states(); got != "1 ended anna\n" {
		t.Errorf("the list says %s", got)
	}
}

// TestTheSameRequestErasesWhatAnAbandonedErasureHasLeft has an erasure abandoned that had erased all events, and
// neither the sealing key nor what is scheduled.
func TestTheSameRequestErasesWhatAnAbandonedErasureHasLeft(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.sealed()
	s.orderSealed("oak", "ann", 2)
	s.value(`SELECT tidemark.append_at('oak', now() + interval '1 day', jsonb_build_array(jsonb_build_object('type', 'noted',
		'payload', jsonb_build_object('who', $1::text))))`, planted("ann"))
	r := erasure.Request{Subjects: []string{planted("ann")}}
	s.value(`SELECT id FROM tidemark.begin_erasure(NULL, $1, '{"ordered": ["customer", "name"]}', NULL, 'anna', 'killed', true)`,
		r.Subjects)
	s.value(`SELECT array_length(tidemark.erase(1, 1, 'oak', (SELECT array_agg(seq) FROM tidemark.journal
		WHERE campaign_id = 'oak'), 10), 1)`)
	s.expire()
	if c, err := erasure.Abandon(t.Context(), s.Pool, 1, "otto", "it is lost"); err != nil || c.Keys > 0 || c.Changed["scheduled"] > 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	const left = `SELECT (SELECT count(*) FROM tidemark.keys) || ' ' || (SELECT count(*) FROM tidemark.scheduled)`
	if n := s.value(left); n != "1 1" {
		t.Errorf("keys and scheduled appends after it was abandoned: %s", n)
	}
	if c := s.erase(r); c.Erasure != 2 || c.Keys != 1 || c.Changed["scheduled"] != 1 {
		t.Errorf("the same request: %+v", c)
	}
	if n := s.value(left); n != "0 0" {
		t.Errorf("keys and scheduled appends after the same request: %s", n)
	}
}

package ledger

import (
	"fmt"
	"testing"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"pgregory.net/rapid"
)

// settled moves every pair to its assigned relay and returns the assignment. It fails the test if a
// second assignment moves a pair again.
func settled(t *rapid.T, relays map[string]map[publications.Key]bool, seats []Row) map[publications.Key]string {
	assigned := Assign(relays, seats)
	for i := range seats {
		seats[i].Owner, seats[i].Leased = assigned[seats[i].Key], assigned[seats[i].Key] != ""
	}
	for key, owner := range Assign(relays, seats) {
		if assigned[key] != owner {
			t.Fatalf("%s is to move again, from %s to %s", key, assigned[key], owner)
		}
	}
	return assigned
}

func TestPairsAreSharedOutEvenlyAndStayWhereTheyCan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(t, "pairs")
		seats := make([]Row, n)
		all := map[publications.Key]bool{}
		for i := range seats {
			seats[i] = Row{Key: publications.Key{Topic: fmt.Sprint(i), Publisher: "p"}, Active: true}
			all[seats[i].Key] = true
		}
		relays := map[string]map[publications.Key]bool{}
		for i := range rapid.IntRange(1, 6).Draw(t, "relays") {
			relays[fmt.Sprint("r", i)] = all
		}
		before := settled(t, relays, seats)
		even(t, relays, before, n)

		relays["new"] = all
		joined := settled(t, relays, seats)
		even(t, relays, joined, n)
		for key, owner := range joined {
			if owner != before[key] && owner != "new" {
				t.Fatalf("one joins, and %s moves from %s to %s", key, before[key], owner)
			}
		}
		delete(relays, "r0")
		for i := range seats {
			if seats[i].Owner == "r0" {
				seats[i].Leased = false
			}
		}
		left := settled(t, relays, seats)
		even(t, relays, left, n)
		for key, owner := range left {
			if owner != joined[key] && joined[key] != "r0" {
				t.Fatalf("one leaves, and %s moves from %s to %s", key, joined[key], owner)
			}
		}
	})
}

func even(t *rapid.T, relays map[string]map[publications.Key]bool, assigned map[publications.Key]string, n int) {
	load := map[string]int{}
	for _, owner := range assigned {
		load[owner]++
	}
	if len(assigned) != n {
		t.Fatalf("%d of %d pairs are assigned", len(assigned), n)
	}
	for owner := range relays {
		if load[owner] < n/len(relays) || load[owner] > (n+len(relays)-1)/len(relays) {
			t.Fatalf("%s has %d of %d pairs: %v", owner, load[owner], n, load)
		}
	}
}

func TestAPairGoesOnlyToARelayThatKnowsIt(t *testing.T) {
	t.Parallel()
	a, b := publications.Key{Topic: "a", Publisher: "p"}, publications.Key{Topic: "b", Publisher: "p"}
	relays := map[string]map[publications.Key]bool{"old": {a: true}, "new": {a: true, b: true}}
	assigned := Assign(relays, []Row{{Key: a, Active: true}, {Key: b, Active: true}})
	if assigned[b] != "new" || assigned[a] != "old" {
		t.Errorf("got %v", assigned)
	}
	if assigned := Assign(map[string]map[publications.Key]bool{"old": {a: true}}, []Row{{Key: a, Active: true}, {Key: b, Active: true}}); assigned[b] != "" {
		t.Errorf("got %v", assigned)
	}
	// A dead relay keeps its leased pairs until the leases expire, and gets no new ones.
	assigned = Assign(map[string]map[publications.Key]bool{"old": {a: true, b: true}}, []Row{{Key: a, Owner: "dead", Active: true, Leased: true}, {Key: b, Active: true}})
	if assigned[a] != "dead" || assigned[b] != "old" {
		t.Errorf("got %v", assigned)
	}
}

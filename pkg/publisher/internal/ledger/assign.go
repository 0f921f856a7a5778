package ledger

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// Assign assigns each active pair to a relay. All relays compute the same result from the same
// rows. A pair moves only if that evens out the numbers, and only to a relay that knows it.
func Assign(relays map[string]map[publications.Key]bool, pairs []Row) map[publications.Key]string {
	seats := slices.DeleteFunc(slices.Clone(pairs), func(r Row) bool { return !r.Active })
	slices.SortFunc(seats, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Publisher, b.Publisher))
	})
	owners := slices.Sorted(maps.Keys(relays))
	load, assigned := map[string]int{}, map[publications.Key]string{}
	for _, s := range seats {
		if s.Leased {
			assigned[s.Key] = s.Owner
			load[s.Owner]++
		}
	}
	// least returns the relay with the fewest pairs that knows the pair.
	least := func(key publications.Key) (owner string, found bool) {
		for _, o := range owners {
			if relays[o][key] && (!found || load[o] < load[owner]) {
				owner, found = o, true
			}
		}
		return owner, found
	}
	for _, s := range seats {
		if owner, ok := least(s.Key); !s.Leased && ok {
			assigned[s.Key] = owner
			load[owner]++
		}
	}
	for moved := true; moved; {
		moved = false
		for _, s := range seats {
			from := assigned[s.Key]
			to, ok := least(s.Key)
			if ok && from != "" && relays[from] != nil && load[from] >= load[to]+2 {
				assigned[s.Key] = to
				load[from]--
				load[to]++
				moved = true
			}
		}
	}
	return assigned
}

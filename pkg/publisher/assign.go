package publisher

import (
	"cmp"
	"maps"
	"slices"
)

// seat is a pair as all relays see it.
type seat struct {
	Key
	holder string // "" if nobody holds it
}

// assign answers which relay is to have which pair. All relays come to the same answer from the same rows, so nobody has to decide for the others: each gives back
// what is another's, and claims what is its own and free. A pair stays where it is unless moving it evens out numbers, and goes only to a relay that knows it.
func assign(relays map[string]map[Key]bool, seats []seat) map[Key]string {
	seats = slices.Clone(seats)
	slices.SortFunc(seats, func(a, b seat) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Publisher, b.Publisher))
	})
	owners := slices.Sorted(maps.Keys(relays))
	load, assigned := map[string]int{}, map[Key]string{}
	for _, s := range seats {
		if s.holder != "" {
			assigned[s.Key] = s.holder
			load[s.holder]++
		}
	}
	// least answers the relay that knows the pair and has the fewest.
	least := func(key Key) (owner string, found bool) {
		for _, o := range owners {
			if relays[o][key] && (!found || load[o] < load[owner]) {
				owner, found = o, true
			}
		}
		return owner, found
	}
	for _, s := range seats {
		if owner, ok := least(s.Key); s.holder == "" && ok {
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

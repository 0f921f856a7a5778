package matrix_test

import (
	"slices"
	"testing"
)

type (
	act     string
	state   string
	feature string
)

// The acts.
const (
	eraseWhole    act = "erase_whole"
	erasePersonal act = "erase_personal"
	seal          act = "seal"
	archives      act = "archive"
	restore       act = "restore"
	retains       act = "retention"
)

// The states that a run of an act can be in.
const (
	running  state = "running"  // appends, workers and publishers go on at the same time
	killed   state = "killed"   // SIGKILL ends the process at a statement, then it is run again
	repeated state = "repeated" // it is run once more after its end
	anothers state = "anothers" // it was killed, another operator acts meanwhile, and then ends it
)

// The features that hold events, or texts of them.
const (
	rebuilding feature = "rebuild"
	replaying  feature = "replay"
	across     feature = "across"
	process    feature = "process"
	scheduled  feature = "scheduled"
	behind     feature = "behind" // a publisher
	parked     feature = "parked" // and a key of a projection across campaigns that fails
	sealed     feature = "sealed"
	archived   feature = "archived"
)

// cell is a combination. Its text is part of the texts that are planted for it.
type cell struct {
	act     act
	state   state
	feature feature
}

func (c cell) String() string { return string(c.act) + "/" + string(c.state) + "/" + string(c.feature) }

// acts returns all acts. The one with impossible cells is last, where others have the same pairs.
func acts() []act { return []act{eraseWhole, erasePersonal, archives, restore, retains, seal} }

func states() []state { return []state{running, killed, repeated, anothers} }

func features() []feature {
	return []feature{rebuilding, replaying, across, process, scheduled, behind, parked, sealed, archived}
}

// impossible tells why there are no such cells. An empty field stands for all values.
func impossible() map[cell]string {
	return map[cell]string{
		{seal, "", archived}: "an archived campaign takes no appends, so nothing can be sealed in it: the append is refused",
		{seal, "", sealed}:   "it is the act itself: in all cells of this act the fields are sealed",
	}
}

// why returns the reason why a cell is impossible, or "".
func (c cell) why() string {
	for i, reason := range impossible() {
		if (i.act == "" || i.act == c.act) && (i.state == "" || i.state == c.state) &&
			(i.feature == "" || i.feature == c.feature) {
			return reason
		}
	}
	return ""
}

// cells returns all possible cells.
func cells() (all []cell) {
	for _, a := range acts() {
		for _, s := range states() {
			for _, f := range features() {
				if c := (cell{a, s, f}); c.why() == "" {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// pairs returns the fewest cells that have each possible pair of act, state and feature: each act meets
// each feature in one state, which is another one with the next act and with the next feature.
func pairs() []cell {
	return slices.DeleteFunc(cells(), func(c cell) bool {
		i := slices.Index(acts(), c.act) + slices.Index(features(), c.feature)
		return c.state != states()[i%len(states())]
	})
}

func TestPairsHaveEachPairOfTheMatrix(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string]func(cell) cell{
		"act and state":     func(c cell) cell { return cell{act: c.act, state: c.state} },
		"act and feature":   func(c cell) cell { return cell{act: c.act, feature: c.feature} },
		"state and feature": func(c cell) cell { return cell{state: c.state, feature: c.feature} },
	} {
		some := map[cell]bool{}
		for _, c := range pairs() {
			some[pair(c)] = true
		}
		for _, c := range cells() {
			if !some[pair(c)] {
				t.Errorf("%s: no pair of %s is run", name, c)
			}
		}
	}
}

func TestEachImpossibleCellIsOneOfTheMatrix(t *testing.T) {
	t.Parallel()
	n := len(acts()) * len(states()) * len(features())
	for i, reason := range impossible() {
		before := n
		for _, a := range acts() {
			for _, s := range states() {
				for _, f := range features() {
					if c := (cell{a, s, f}); c.why() == reason {
						n--
					}
				}
			}
		}
		if n == before || reason == "" {
			t.Errorf("%q is no cell, or has no reason", i)
		}
	}
	if len(cells()) != n {
		t.Errorf("%d cells are run, %d are possible", len(cells()), n)
	}
}

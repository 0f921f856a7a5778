package matrix_test

import (
	"flag"
	"slices"
	"strings"
	"testing"
)

//nolint:gochecknoglobals // flags
var (
	all  = flag.Bool("all", false, "run all cells of the matrix, not one for each pair")
	logs = flag.String("logs", "", "folder for the workers' logs of worlds that fail")
)

func TestNothingErasedIsLeftWhateverMeets(t *testing.T) {
	t.Parallel()
	chosen := pairs()
	if *all {
		chosen = cells()
	}
	for _, a := range acts() {
		for _, together := range worlds(*all) {
			some := slices.DeleteFunc(slices.Clone(chosen), func(c cell) bool {
				return c.act != a || !slices.Contains(together, c.state)
			})
			name := string(a)
			if len(together) == 1 {
				name += "_" + string(together[0])
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				live(t, a, together, some)
			})
		}
	}
}

// worlds returns the states that share a world.
func worlds(each bool) (together [][]state) {
	if !each {
		return [][]state{states()}
	}
	for _, s := range states() {
		together = append(together, []state{s})
	}
	return together
}

// live runs cells of an act in one world.
func live(t *testing.T, a act, together []state, cells []cell) {
	w := newWorld(t, a)
	w.work()
	for _, s := range together {
		some := slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { return c.state != s })
		w.prepare(s, some)
		w.run(s, some)
		w.proceed()
	}
	w.quiet()
	w.compare(cells)
	if a != eraseWhole && a != erasePersonal {
		w.erase(together, cells)
		w.quiet()
		w.compare(cells)
	} else {
		w.erase(together, nil)
		w.quiet()
	}
	w.scan(cells)
	w.lakes(cells)
}

// erase erases all persons who are to be forgotten, and are not yet.
func (w *world) erase(together []state, cells []cell) {
	w.t.Helper()
	o := order{Act: eraseWhole, URL: w.anna, By: "anna", Folder: w.folder, Subjects: persons(cells)}
	if w.act == erasePersonal {
		o.Act = erasePersonal
	}
	for _, s := range together {
		if extra := "gone-extra-" + string(s); !w.forgot[extra] {
			o.Subjects = append(o.Subjects, extra)
		}
	}
	if len(o.Subjects) > 0 {
		w.done(o, w.send(o), nil)
	}
}

// lakes checks what was published: what was sealed and what was sent later has no text, and consumers
// were told of all campaigns.
func (w *world) lakes(cells []cell) {
	w.t.Helper()
	notices := map[string]bool{}
	for line := range strings.Lines(w.lake["lake"].String()) {
		for _, c := range cells {
			campaign := `["` + c.campaign() + `",`
			if strings.HasPrefix(line, campaign) && strings.Contains(line, `"events_erased"`) {
				notices[c.campaign()] = true
			}
			if (c.feature == sealed || c.act == seal) && strings.HasPrefix(line, campaign) {
				w.search("the lake", line, cells)
			}
		}
	}
	for _, c := range cells {
		if !notices[c.campaign()] {
			w.t.Errorf("%s: consumers were not told", c)
		}
	}
	if w.act == eraseWhole || w.act == erasePersonal {
		for _, name := range []string{"behind", "parked"} {
			for line := range strings.Lines(w.lake[name].String()) {
				if !strings.Contains(line, string("-"+running)) {
					w.search("the lake of "+name, line, cells)
				}
			}
		}
	}
}

package projector

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestARebuildGetsItsShareOfTheTimeAndNoMore drives the budget with a clock of its own. Four
// goroutines give away a quarter of their time: one second each second.
func TestARebuildGetsItsShareOfTheTimeAndNoMore(t *testing.T) {
	t.Parallel()
	rebuilt := &apply.Unit{Standing: &failed.Standing{Projection: registry.NextTables.Of("scores")}}
	live := &apply.Unit{}
	behind := &apply.Unit{Standing: &failed.Standing{Projection: "scores"}}
	for name, c := range map[string]struct {
		most  float64
		units []*apply.Unit // units of a group; nil: a range is copied
		want  time.Duration
	}{
		"copying":                             {0.25, nil, 10 * time.Second},
		"catching up":                         {0.25, []*apply.Unit{rebuilt}, 10 * time.Second},
		"half of a group":                     {0.25, []*apply.Unit{rebuilt, live}, 20 * time.Second},
		"a tenth":                             {0.1, nil, 4 * time.Second},
		"live work, which is not charged":     {0.25, []*apply.Unit{live}, time.Minute},
		"a retry of the tables that are read": {0.25, []*apply.Unit{behind}, time.Minute},
		"all of the time":                     {1, nil, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &apply.Share{Workers: 4, Most: 1}
			s.Set(c.most)
			const turn = 30 * time.Millisecond
			var spent time.Duration
			now := time.Unix(1, 0)
			for end := now.Add(10 * time.Second); now.Before(end); {
				if wait := s.Wait(now); wait > 0 {
					now = now.Add(wait)
					continue
				}
				// Six such turns run at a time.
				if now = now.Add(turn / 6); c.units == nil {
					s.Charge(turn)
				} else {
					s.Spend(c.units, turn)
				}
				spent += turn
			}
			if off := spent - c.want; off < -apply.ShareBurst-turn || off > 2*apply.ShareBurst+turn {
				t.Errorf("%v of 40 s were spent, want about %v", spent, c.want)
			}
		})
	}
}

// TestAWorkerChargesToTheShareWhatRebuildsCost lets a worker copy, and catch up on what was not
// copied.
func TestAWorkerChargesToTheShareWhatRebuildsCost(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker := func(version int) *Projector {
		p, err := New(Config{Pool: pool, Projections: []projection.Projection{onceEach(version)}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one, two := worker(1), worker(2)
	for _, campaign := range []string{"a", "b"} {
		noteIn(t, pool, campaign, 3)
	}
	if _, err := one.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := two.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask := func(most float64) {
		t.Helper()
		if _, err := rebuild.StartRebuild(t.Context(), pool, "seen", rebuild.Options{MaxShare: &most},
			failed.Act{By: "ada"}); err != nil {
			t.Fatal(err)
		}
		if err := two.rebuilder.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if two.applier.Share.Most != most {
			t.Errorf("the share is %v, want %v", two.applier.Share.Most, most)
		}
	}
	ask(0.25)
	ask(1) // nothing waits then, and the budget is what was spent
	if err := two.rebuilder.CopyRanges(t.Context()); err != nil {
		t.Fatal(err)
	}
	copied := two.applier.Share.Budget
	if copied >= 0 {
		t.Error("copying is not charged")
	}
	noteIn(t, pool, "a", 1)
	if _, err := one.Drain(t.Context()); err != nil { // defers campaign a
		t.Fatal(err)
	}
	if _, err := two.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if two.applier.Share.Budget >= copied {
		t.Error("catching up is not charged")
	}
}

// TestDrainLeavesNoRebuildUndoneForItsShare has a rebuild that has overspent its share by an hour,
// and no other work.
func TestDrainLeavesNoRebuildUndoneForItsShare(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker := func(version int) *Projector {
		p, err := New(Config{Pool: pool, ManualRebuilds: true, Projections: []projection.Projection{onceEach(version)}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one, two := worker(1), worker(2)
	drain := func(p *Projector) {
		t.Helper()
		if _, err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	noteIn(t, pool, "a", 3)
	drain(one)
	most, version := 0.25, 2
	if _, err := rebuild.StartRebuild(t.Context(), pool, "seen", rebuild.Options{Version: &version, MaxShare: &most},
		failed.Act{By: "ada"}); err != nil {
		t.Fatal(err)
	}
	if err := two.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := two.rebuilder.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := two.rebuilder.CopyRanges(t.Context()); err != nil {
		t.Fatal(err)
	}
	noteIn(t, pool, "a", 1)
	drain(one) // defers campaign a
	two.applier.Share.Charge(time.Hour)
	drain(two)
	var behind int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM tidemark.failed`).Scan(&behind); err != nil {
		t.Fatal(err)
	}
	if behind > 0 {
		t.Errorf("%d campaigns of the rebuild are behind", behind)
	}
}

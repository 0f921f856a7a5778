package projector

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	pauses "github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// rebuildState is a state of a rebuild and the way to reach it from a new cell.
type rebuildState struct {
	name  string
	list  bool
	reach func(c *cell)
}

func rebuildStates() []rebuildState {
	return []rebuildState{
		{name: "requested", reach: (*cell).startRebuild},
		{name: "copying", reach: begun},
		{name: "copied", reach: copied},
		{name: "joining", list: true, reach: begun},
		{name: "catching_up", reach: joined},
		{name: "ready", reach: func(c *cell) {
			joined(c)
			c.exec(`UPDATE tidemark.rebuilds SET refused_at = now() + interval '1 hour'`)
			c.drain(c.all)
		}},
		{name: "previous", reach: exchanged},
		{name: "next_withdrawn", reach: func(c *cell) {
			joined(c)
			withdrawnBy(c, registry.NextTables)
		}},
		{name: "previous_withdrawn", reach: func(c *cell) {
			exchanged(c)
			withdrawnBy(c, registry.PreviousTables)
		}},
		{name: "rolled_back", reach: func(c *cell) {
			exchanged(c)
			for _, name := range c.names {
				c.must(rebuild.Rollback(c.Context(), c.pool, name, rebuild.RollbackOptions{AllowBehind: -1}, operator()))
			}
		}},
		{name: "first_joining", reach: func(c *cell) {
			for i, name := range c.names {
				c.must(rebuild.Remove(c.Context(), c.pool, name, true, operator()))
				_, err := c.one.registrar.Enter(c.Context(), c.one.base.Projections[i])
				c.must(err)
			}
		}},
	}
}

// begun creates the next tables.
func begun(c *cell) {
	c.Helper()
	c.must(c.all.Register(c.Context()))
	c.startRebuild()
	for _, name := range c.names {
		c.must(c.all.rebuilder.BeginRebuild(c.Context(), name, 2))
	}
	_, err := c.all.rebuilder.ReadRows(c.Context())
	c.must(err)
}

// copied copies c2 and c3, and loses the range with c0 and c1.
func copied(c *cell) {
	c.Helper()
	begun(c)
	c.exec(`UPDATE tidemark.rebuilds SET copied_to = 'c1'`)
	c.must(c.all.rebuilder.CopyRanges(c.Context()))
}

// joined defers c0 and c1 to catch up.
func joined(c *cell) {
	c.Helper()
	copied(c)
	c.must(c.all.rebuilder.Step(c.Context()))
}

// exchanged swaps the tables, with c0 failed in both sets.
func exchanged(c *cell) {
	c.Helper()
	c.startRebuild()
	c.exec(`UPDATE tidemark.rebuilds SET allow_failed = 1`)
	c.drain(c.all)
}

// withdrawnBy leaves tables withdrawn, as a process that died halfway does.
func withdrawnBy(c *cell, s registry.TableSet) {
	c.Helper()
	for _, name := range c.names {
		c.exec(rebuild.QueryWithdraw, s.Of(name), rebuild.Withdrawn)
	}
}

// rebuildAct is an act that moves a projection's place in a campaign or defers it. refused maps the
// states that refuse it to the text of the error.
type rebuildAct struct {
	name    string
	do      func(c *cell, name string) error
	refused map[string]string
}

// in adds to others that an act is refused in some states with the given error.
func in(states, says string, others ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, other := range others {
		maps.Copy(all, other)
	}
	for _, state := range strings.Fields(states) {
		all[state] = says
	}
	return all
}

const (
	underWay = "copying copied joining catching_up ready"
	notBuilt = "previous previous_withdrawn rolled_back first_joining"
)

// groupActs act on all projections of a group.
func groupActs() []rebuildAct {
	loose := in("joining", failed.ErrNotResettable.Error())
	move := func(c *cell) {
		noteIn(c.T, c.pool, "c1", 1)
		noteIn(c.T, c.pool, "c3", 1)
	}
	return []rebuildAct{
		{name: "apply", do: func(c *cell, _ string) error {
			move(c)
			c.drain(c.one)
			return nil
		}},
		{name: "replay some from an event", do: replayed(3, "c1", "c2")},
		{name: "replay all from an event", do: replayed(3)},
		{name: "replay some from scratch", do: replayed(0, "c1", "c2"), refused: loose},
		{name: "replay all from scratch", do: replayed(0), refused: loose},
		{name: "resolve", do: func(c *cell, _ string) error { return c.resolve("") }},
		{name: "requeue", do: func(c *cell, _ string) error { return c.requeue("") }},
		{name: "repair gaps", do: func(c *cell, _ string) error {
			move(c)
			c.exec(`DELETE FROM tidemark.outbox WHERE consumer_group = $1`, c.group)
			_, err := outbox.Repair{Group: c.group, By: "ada"}.Run(c.Context(), c.pool)
			return err
		}},
	}
}

// replayed replays all projections of the group.
func replayed(from int64, campaigns ...string) func(c *cell, _ string) error {
	return func(c *cell, name string) error {
		c.again[name] = from > 0
		return c.replay(failed.ReplayRequest{Group: c.group, From: from, Campaigns: campaigns})
	}
}

func (c *cell) replay(r failed.ReplayRequest) error {
	return c.within(func(tx pgx.Tx) (err error) {
		if len(r.Campaigns) > 0 {
			_, err = failed.Replay(c.Context(), tx, r, operator())
		} else {
			_, _, err = failed.ReplayAll(c.Context(), tx, r, "", 0, operator())
		}
		return err
	})
}

// projectionActs act on one projection, so all acts of a state share a group. Acts that let workers
// go on come last.
func projectionActs() []rebuildAct {
	notThere := in("requested next_withdrawn "+notBuilt, failed.ErrUnknown.Error())
	loose := in("joining", failed.ErrNotResettable.Error())
	noRebuild := in(notBuilt, rebuild.ErrNoRebuild.Error())
	pause := func(c *cell, set string) error {
		return c.within(func(tx pgx.Tx) error {
			return pauses.Set(c.Context(), tx, pauses.Target{Group: c.group, Projection: set}, "ada", "", 0)
		})
	}
	start := func(version int, allowFailed int64) func(c *cell, name string) error {
		return func(c *cell, name string) error {
			_, err := rebuild.StartRebuild(c.Context(), c.pool, name, rebuild.Options{Version: &version, AllowFailed: &allowFailed},
				operator())
			return err
		}
	}
	return []rebuildAct{
		{name: "replay of next from an event", do: func(c *cell, name string) error {
			c.again[name] = true
			return c.replay(failed.ReplayRequest{Group: c.group, Projection: registry.NextTables.Of(name), From: 3})
		}, refused: notThere},
		{name: "replay of next from scratch", do: func(c *cell, name string) error {
			return c.replay(failed.ReplayRequest{Group: c.group, Projection: registry.NextTables.Of(name)})
		}, refused: in("", "", notThere, loose)},
		{name: "verify and repair", do: func(c *cell, name string) error {
			r := failed.ReplayRequest{Group: c.group, Projection: name}
			_, err := c.all.replayer.Verify(c.Context(), lookback.VerifyRequest{
				Projection: name, Concurrency: 1,
				OnCampaign: func(id string) { r.Campaigns = append(r.Campaigns, id) }, Campaigns: []string{"c1", "c2"},
			})
			if err != nil || len(r.Campaigns) == 0 {
				return err
			}
			return c.replay(r)
		}, refused: in("joining", replay.ErrNotVerifiable.Error(), in("first_joining", registry.ErrRegistered.Error()))},
		{name: "swap", do: start(2, 1)},
		{name: "rollback", do: func(c *cell, name string) error {
			return rebuild.Rollback(c.Context(), c.pool, name, rebuild.RollbackOptions{AllowBehind: -1}, operator())
		}, refused: in("requested next_withdrawn "+underWay, rebuild.ErrRebuilding.Error(),
			in("previous_withdrawn first_joining", rebuild.ErrNoPrevious.Error()))},
		{
			name: "abort", do: func(c *cell, name string) error {
				_, err := rebuild.AbortRebuild(c.Context(), c.pool, name, operator())
				return err
			}, refused: noRebuild,
		},
		{name: "a second rebuild", do: start(3, 0), refused: in("requested "+underWay,
			"version 2 is being built: abort that first")},
		{name: "a newer version", do: func(c *cell, name string) error {
			return c.all.rebuilder.BeginRebuild(c.Context(), name, 3)
		}},
		{name: "remove", do: func(c *cell, name string) error { return rebuild.Remove(c.Context(), c.pool, name, true, operator()) }},
		{name: "pause", do: pause},
		{name: "pause next", do: func(c *cell, name string) error {
			err := pause(c, registry.NextTables.Of(name))
			noteIn(c.T, c.pool, "c1", 1)
			noteIn(c.T, c.pool, "c2", 1)
			c.drain(c.all)
			return err
		}, refused: in(notBuilt, "there is nothing to pause")},
	}
}

// TestEveryActInEveryStateOfARebuildEndsWithTheFoldOfTheJournal runs every act in every state. In
// the end each set of tables holds what its version makes of the journal, or the act was refused
// with its error.
func TestEveryActInEveryStateOfARebuildEndsWithTheFoldOfTheJournal(t *testing.T) {
	t.Parallel()
	for _, state := range rebuildStates() {
		t.Run(state.name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			for i := range 4 {
				noteIn(t, pool, fmt.Sprint("c", i), 4)
			}
			for i, act := range groupActs() {
				state.inCell(t, newCell(t, pool, fmt.Sprint("g", i), state.list, 1), act)
			}
			acts := projectionActs()
			state.inCell(t, newCell(t, pool, "shared", state.list, len(acts)), acts...)
		})
	}
}

// inCell runs acts, each on a projection of its own.
func (s rebuildState) inCell(t *testing.T, c *cell, acts ...rebuildAct) {
	t.Helper()
	s.reach(c)
	before, resolved := t.Failed(), false
	for i, act := range acts {
		switch err, want := act.do(c, c.names[i]), act.refused[s.name]; {
		case err == nil && want != "":
			t.Errorf("%s is not refused, want %q", act.name, want)
		case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", act.name, err, want)
		}
		resolved = resolved || act.name == "resolve"
	}
	c.all = c.worker(1, 2, 3) // a new worker registers removed projections again
	if resolved {
		c.settle(c.resolve)
	} else {
		c.settle(c.requeue)
	}
	c.compare(resolved)
	if t.Failed() && !before {
		for i, act := range acts {
			t.Logf("%s: %s", c.names[i], act.name)
		}
	}
}

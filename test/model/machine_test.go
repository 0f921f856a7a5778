package model_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// machine is the database, its model, and the workers.
type machine struct {
	*world
	t       *testing.T
	pool    *pgxpool.Pool
	faults  *faults
	all     []projection.Projection
	steady  *projector.Projector // a worker that lives all the time
	ghost   *projector.Projector // a shadow worker that lives all the time
	mortals int                  // number of mortal workers so far
}

// TestWhateverHappensThePromisesHold is the state machine. TIDEMARK_MODEL_CHECKS=1000 makes a long
// run.
func TestWhateverHappensThePromisesHold(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	f := &faults{}
	all := projections(t, f)
	steady := worker(t, config(pool, all, 4))
	shadowing := config(pool, all, 3)
	shadowing.Mode = projection.ModeShadowOnly
	ghost := worker(t, shadowing)
	mortals := 0
	rapid.Check(t, func(r *rapid.T) {
		m := &machine{
			world: newWorld(), t: t, pool: pool, faults: f, all: all, steady: steady, ghost: ghost,
			mortals: mortals,
		}
		m.empty(r)
		r.Repeat(map[string]func(*rapid.T){
			"append":        m.append,
			"append again":  m.append,
			"break":         m.breakSome,
			"mend":          m.mend,
			"drain":         m.drain,
			"drain again":   m.drain,
			"shadow":        m.shadow,
			"time passes":   m.timePasses,
			"requeue":       func(r *rapid.T) { m.actOnOne(r, "requeued") },
			"resolve":       func(r *rapid.T) { m.actOnOne(r, "resolved") },
			"unresolve":     m.unresolve,
			"requeue all":   func(r *rapid.T) { m.actOnMany(r, "requeued") },
			"requeue event": m.requeueSeq,
			"resolve all":   func(r *rapid.T) { m.actOnMany(r, "resolved") },
			"replay":        m.replay,
			"replay all":    m.replayAll,
			"pause":         m.pause,
			"pause itself":  m.pauseItself,
			"resume":        m.resume,
			"pauses end":    m.pausesEnd,
			"inline":        m.inline,
			"recover":       m.recover,
			"crash":         m.crash,
			"outage":        m.outage,
			"two at once":   m.twoAtOnce,
			"interrupt":     m.interrupt,
			"leases expire": m.expire,
			"lose work":     m.loseWork,
			"repair gaps":   m.repairGaps,
			"repair twice":  m.repairTwice,
			"":              m.check,
		})
		m.end(r)
		mortals = m.mortals
	})
}

// empty resets database and model. The projections stay registered.
func (m *machine) empty(r *rapid.T) {
	m.faults.mu.Lock()
	m.faults.spots, m.faults.outage = m.spots, 0
	m.faults.mu.Unlock()
	err := m.pool.AcquireFunc(m.t.Context(), func(c *pgxpool.Conn) error {
		_, err := c.Exec(m.t.Context(), `SET session_replication_role = replica;
			TRUNCATE tidemark.journal, tidemark.outbox, tidemark.leases, tidemark.failed, tidemark.failure_log,
				tidemark.resolutions, tidemark.pauses, tidemark.crashes, ledger, sums, pages, faults;
			RESET session_replication_role`)
		return err
	})
	m.must(r, err)
}

func (m *machine) must(r *rapid.T, err error) {
	if err != nil {
		r.Fatal(err)
	}
}

func (m *machine) tx(do func(ctx context.Context, tx pgx.Tx) error) error {
	ctx := m.t.Context()
	return pgx.BeginFunc(ctx, m.pool, func(tx pgx.Tx) error { return do(ctx, tx) })
}

// check compares the database with the model.
func (m *machine) check(r *rapid.T) {
	found, wrong, err := m.read(m.t.Context(), m.pool)
	m.must(r, err)
	m.same(r, found, wrong)
	m.checkTrails(r, found)
	m.checkGaps(r)
}

func (m *machine) same(r *rapid.T, found *world, wrong []string) {
	got, want := found.describe(), m.describe()
	for _, what := range slices.Sorted(maps.Keys(want)) {
		if got[what] != want[what] {
			wrong = append(wrong, fmt.Sprintf("%s\n    is     %s\n    should %s", what, got[what], want[what]))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(got)) {
		if _, known := want[what]; !known {
			wrong = append(wrong, fmt.Sprintf("%s\n    is     %s\n    should not be", what, got[what]))
		}
	}
	m.complain(r, wrong)
}

func (m *machine) complain(r *rapid.T, wrong []string) {
	if len(wrong) > 0 {
		r.Fatalf("%d things are not as the model has them:\n%s", len(wrong), strings.Join(wrong, "\n"))
	}
}

// checkTrails checks the same without the model's steps: every projection has applied exactly the
// events of a campaign up to its place, once and in order, except skipped ones. Resolved events are
// not expected.
func (m *machine) checkTrails(r *rapid.T, found *world) {
	var wrong []string
	for _, key := range m.keys() {
		place := found.campaigns[key.CampaignID].checkpoint
		if behind, is := found.rows[key]; is {
			if place = behind.next - 1; behind.reset {
				continue // its rows have not been deleted yet
			}
		}
		if m.again[key] {
			continue
		}
		var fold []int64
		for seq := int64(1); seq <= place; seq++ {
			if m.wanted(key, seq) && !slices.Contains(m.omitted[key], seq) {
				fold = append(fold, seq)
			}
		}
		if !slices.Equal(fold, found.trails[key]) {
			wrong = append(wrong, fmt.Sprintf("%s stands behind event %d, leaves out %v and has applied %v", key, place,
				m.omitted[key], found.trails[key]))
		}
	}
	m.complain(r, wrong)
}

func (m *machine) checkGaps(r *rapid.T) {
	gaps, _, err := outbox.Gaps(m.t.Context(), m.pool, group, "", 0)
	m.must(r, err)
	var got, want []string
	for _, g := range gaps {
		got = append(got, g.CampaignID)
	}
	for _, id := range m.ids() {
		if m.gap(id) {
			want = append(want, id)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		r.Fatalf("the gaps are %v, they should be %v", got, want)
	}
}

// end repairs all faults, resumes all pauses, requeues everything and drains. Nothing may be left,
// and every trail must equal the fold.
func (m *machine) end(r *rapid.T) {
	clear(m.spots)
	m.must(r, m.faults.set(m.t.Context(), m.pool))
	for _, target := range m.paused() {
		m.resumeOne(r, target)
	}
	m.expire(r)
	m.repairGaps(r)
	m.requeueAll(r, failed.Filter{Group: group})
	m.drain(r)
	m.check(r)
	if n := len(m.rows); n > 0 {
		r.Fatalf("%d pairs are still behind: %v", n, m.rows)
	}
	for id, c := range m.campaigns {
		if len(c.outbox) > 0 || c.held || m.gap(id) {
			r.Fatalf("campaign %s is left as %+v", id, c)
		}
	}
}

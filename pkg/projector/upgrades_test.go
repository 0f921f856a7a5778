package projector_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const (
	fleetReplicas  = 2
	fleetCampaigns = 6
	fleetVersions  = 21 // per database: the journal grows, and each version applies all of it
)

// upgradesFor returns the minimum time for upgrades. To set it: go test ./pkg/projector -run
// RollingUpgrade -v -timeout 90m -args -upgrades=60m
func upgradesFor() time.Duration {
	d, err := time.ParseDuration(flag.Lookup("upgrades").Value.String())
	if err != nil {
		panic(err)
	}
	return d
}

var _ = flag.Duration("upgrades", 3*time.Second, "how long fleets of workers go through rolling upgrades, at least")

// TestARollingUpgradeAfterTheOther replaces the workers of a fleet one by one with the next version
// while events arrive, for as long as the flag says. It does not wait minutes between upgrades as
// an operator would, so more of them fit into the time.
func TestARollingUpgradeAfterTheOther(t *testing.T) {
	t.Parallel()
	tally := &upgradeTally{start: time.Now(), told: time.Now()}
	for n := 1; n == 1 || time.Since(tally.start) < upgradesFor(); n++ {
		// Each fleet has a database of its own, dropped with the subtest.
		t.Run(fmt.Sprint("fleet ", n), func(t *testing.T) {
			(&fleet{pool: pgtest.New(t), tally: tally}).upgrade(t)
		})
		if t.Failed() {
			break
		}
		tally.fleets++
	}
	tally.tell(t)
}

// upgradeTally counts the upgrades and checks so far.
type upgradeTally struct {
	start, told                              time.Time
	fleets, upgrades, replaced               int
	reverted, rolledBack, jumped, both       int
	appended, verified, compared, difference int64
}

func (c *upgradeTally) tell(t *testing.T) {
	t.Helper()
	c.told = time.Now()
	t.Logf("%s: %d fleets, %d upgrades, %d replicas replaced (%d upgrades reverted halfway, %d rolled back and forth, "+
		"%d versions left out, %d with both versions in one worker), %d events appended, %d applied to verify %d "+
		"campaigns, %d differences",
		time.Since(c.start).Round(time.Second), c.fleets, c.upgrades, c.replaced, c.reverted, c.rolledBack, c.jumped, c.both,
		c.appended, c.compared, c.verified, c.difference)
}

// fleet is a number of worker replicas on one database.
type fleet struct {
	pool     *pgxpool.Pool
	tally    *upgradeTally
	replicas []*replica
	ended    errgroup.Group
}

// replica is a worker with a set of versions.
type replica struct{ stop, gone func() }

// start starts a replica with these versions.
func (f *fleet) start(t *testing.T, versions ...int) *replica {
	t.Helper()
	var all []projection.Projection
	for _, v := range versions {
		all = append(all, kindsOf(t, "k", v)...)
	}
	// A pool of its own, as in a process: a swap needs several connections at once.
	config := f.pool.Config()
	config.MaxConns = 5
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	p := workerOf(t, pool, func(c *projector.Config) {
		c.PollInterval, c.GroupEvents, c.Concurrency = 100*time.Millisecond, 10, 2
	}, all...)
	ctx, stop := context.WithCancel(t.Context())
	gone := make(chan struct{})
	f.ended.Go(func() error {
		defer close(gone)
		defer pool.Close()
		return p.Run(ctx)
	})
	return &replica{stop: stop, gone: func() { <-gone }}
}

// replace replaces replicas one after the other, as a rolling upgrade does. The new one starts
// before the old one stops.
func (f *fleet) replace(t *testing.T, first, last int, versions ...int) {
	t.Helper()
	for i := first; i < last; i++ {
		older := f.replicas[i]
		f.replicas[i] = f.start(t, versions...)
		f.append(t, versions[0])
		older.stop()
		f.append(t, i)
		older.gone()
		f.tally.replaced++
		f.progress(t)
	}
}

// append appends to random campaigns.
func (f *fleet) append(t *testing.T, by int) {
	t.Helper()
	for range 4 {
		appendMoves(t, f.pool, fmt.Sprintf("c%02d", rand.IntN(fleetCampaigns)), by)
		f.tally.appended++
	}
}

func (f *fleet) progress(t *testing.T) {
	t.Helper()
	if time.Since(f.tally.told) > 5*time.Second {
		f.tally.tell(t)
	}
}

// shows waits until the given version is live.
func (f *fleet) shows(t *testing.T, version int) {
	t.Helper()
	within(t, fmt.Sprint("version ", version, " is live"), func() bool {
		return query[int](t, f.pool, `SELECT count(*) FROM tidemark.projections WHERE name NOT LIKE '%~%' AND version = $1
			AND state = 'active'`, version) == 3 &&
			query[int](t, f.pool, `SELECT count(*) FROM tidemark.rebuilds`) == 0
	})
}

// idle waits until the fleet has applied everything it can apply.
func (f *fleet) idle(t *testing.T, previousToo bool) {
	t.Helper()
	within(t, "all is applied", func() bool {
		return query[bool](t, f.pool, `SELECT NOT EXISTS (SELECT FROM tidemark.outbox)
			AND NOT EXISTS (SELECT FROM tidemark.failed WHERE $1 OR projection NOT LIKE '%~previous')`, previousToo)
	})
}

// verify compares all rows with the rows that the version's code makes of the journal.
func (f *fleet) verify(t *testing.T, version int) {
	t.Helper()
	p := workerOf(t, f.pool, func(c *projector.Config) { c.Concurrency = 1 }, kindsOf(t, "k", version)...)
	for _, name := range []string{"document_k", "handlers_k", "file_k"} {
		report, err := p.Verify(t.Context(), lookback.VerifyRequest{
			Projection: name, All: true,
			OnDifference: func(d lookback.Difference) {
				t.Errorf("version %d: %s row of %s in %s, %s: want %s, got %s (%v)", version, d.Kind, d.CampaignID, d.Table, d.Key,
					d.Want, d.Got, d.Err)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if report.Skipped > 0 {
			t.Errorf("version %d of %s is still being rebuilt in %d campaigns", version, name, report.Skipped)
		}
		f.tally.verified += report.Campaigns
		f.tally.compared += report.Events
		f.tally.difference += report.Differences()
	}
}

// upgrade takes the fleet from version 1 to the last one, in each of the ways in which upgrades
// happen.
func (f *fleet) upgrade(t *testing.T) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log(query[string](t, f.pool, `SELECT concat_ws(E'\n', now(), (SELECT string_agg(p::text, E'\n')
				FROM tidemark.projections p), (SELECT string_agg(r::text, E'\n') FROM tidemark.rebuilds r),
				(SELECT string_agg(d::text, E'\n') FROM tidemark.failed d),
					(SELECT string_agg(l::text, E'\n') FROM tidemark.leases l),
					(SELECT string_agg(w::text, E'\n') FROM tidemark.workers w),
				(SELECT string_agg(x::text, E'\n' ORDER BY x.id) FROM tidemark.failure_log x WHERE x.act IN ('failed', 'dead')),
					(SELECT count(*) FROM tidemark.outbox))`))
		}
	}()
	for range fleetReplicas {
		f.replicas = append(f.replicas, f.start(t, 1))
	}
	for i := range fleetCampaigns {
		appendMoves(t, f.pool, fmt.Sprintf("c%02d", i), i, 1, 2)
		f.tally.appended += 3
	}
	f.shows(t, 1)
	version := 1
	for way := 0; version < fleetVersions && (way < 5 || time.Since(f.tally.start) < upgradesFor()); way++ {
		before := version
		version++
		switch way % 5 {
		case 0: // straight on
			f.replace(t, 0, fleetReplicas, version)
		case 1: // one replica of the new version is reverted, and the version after it follows
			f.replace(t, 0, 1, version)
			f.replace(t, 0, 1, before)
			f.tally.reverted++
			version++
			f.replace(t, 0, fleetReplicas, version)
		case 2: // an old replica stays until the others are done, so rollback is possible; back and forth
			f.replace(t, 0, fleetReplicas-1, version)
			f.shows(t, version)
			f.append(t, version)
			for _, shown := range []int{before, version} {
				if err := rollback(t.Context(), f.pool, "document_k"); err != nil {
					t.Fatal(err)
				}
				expectText(t, f.pool, "version", fmt.Sprint(shown), `SELECT version::text FROM tidemark.projections
					WHERE name = 'document_k'`)
				f.append(t, version)
			}
			f.tally.rolledBack++
			f.replace(t, fleetReplicas-1, fleetReplicas, version)
		case 3: // one version is skipped
			version++
			f.tally.jumped++
			f.replace(t, 0, fleetReplicas, version)
		case 4: // the new binary has both versions
			f.replace(t, 0, fleetReplicas, version, before)
			f.shows(t, version)
			f.idle(t, true)
			f.tally.both++
		}
		f.append(t, version)
		f.shows(t, version)
		f.idle(t, false)
		f.verify(t, version)
		f.tally.upgrades++
		f.progress(t)
	}
	for _, r := range f.replicas {
		r.stop()
	}
	if err := f.ended.Wait(); err != nil {
		t.Fatal(err)
	}
	// A second check of the same rows: other projections with the same code that were never
	// rebuilt.
	want := folded(t, f.pool, version)
	if got := contents(t, f.pool, "tidemark_views", "k"); got != want {
		f.tally.difference++
		t.Errorf("the tables hold\n%swant\n%s", got, want)
	}
	if n := query[int](t, f.pool, `SELECT count(*) FROM tidemark.failure_log WHERE act IN ('failed', 'dead')`); n > 0 {
		t.Errorf("%d attempts have failed", n)
	}
}

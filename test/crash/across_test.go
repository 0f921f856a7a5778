package crash_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

// preparedAcross returns a database with the projections across campaigns registered and a few
// events of three campaigns.
func preparedAcross(t *testing.T, partitions int) (pool *pgxpool.Pool, url string) {
	t.Helper()
	pool = pgtest.New(t)
	registerAcross(t, pool, partitions)
	for i := range int64(4) {
		for _, campaign := range []string{"a", "b", "c"} {
			tally.Append(t, pool, campaign, 1+i%2, 3+i%3)
		}
	}
	tally.Exec(t, pool, `DELETE FROM tidemark.outbox`) // no step is that of a group of campaigns
	return pool, pool.Config().ConnString()
}

func registerAcross(t *testing.T, pool *pgxpool.Pool, partitions int) {
	t.Helper()
	p, err := projector.New(projector.Config{Pool: pool, Projections: tally.Across(partitions, nil)})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func acrossConfig(url, name string, partitions int) worker.Config {
	cfg := standard(url, name)
	cfg.Across, cfg.GroupEvents = partitions, 5
	return cfg
}

func TestAWorkerThatIsKilledAcrossCampaigns(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 3} {
		for name, at := range map[string]kind.Step{
			"after_it_read":             kind.StepRead,
			"in_the_middle_of_applying": worker.Applying,
			"before_it_commits":         kind.StepApplied,
			"before_it_defers_a_key":    kind.StepDeferring,
			"after_a_commit":            kind.StepCommitted,
		} {
			t.Run(fmt.Sprintf("%s_of_%d_partitions_loses_and_repeats_nothing", name, partitions), func(t *testing.T) {
				t.Parallel()
				pool, url := preparedAcross(t, partitions)
				cfg := acrossConfig(url, "victim", partitions)
				if cfg.HaltAt = at; at == kind.StepDeferring {
					cfg.Refuses = 2
				}
				victim := worker.Start(t, cfg)
				victim.Halts(t)
				tally.Eventually(t, "the worker holds a place", tally.Holds(pool, `SELECT EXISTS (SELECT FROM tidemark.readers
					WHERE expires_at > now())`))
				victim.Kill(t)
				for i := range 2 {
					worker.Start(t, acrossConfig(url, fmt.Sprint("successor ", i), partitions))
				}
				tally.Append(t, pool, "b", 2, 4, 6)
				tally.SettleAcross(t, pool)
				tally.VerifyAcross(t, pool, nil)
			})
		}
	}
}

// TestAWorkerThatIsKilledWhileItReplaysKeys appends events of the keys afterwards.
func TestAWorkerThatIsKilledWhileItReplaysKeys(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 4} {
		for _, at := range []kind.Step{kind.StepRead, worker.Applying, kind.StepApplied, kind.StepCommitted} {
			t.Run(fmt.Sprintf("%s_of_%d_partitions", at, partitions), func(t *testing.T) {
				t.Parallel()
				pool, url := preparedAcross(t, partitions)
				for range 20 {
					tally.Append(t, pool, "a", 3, 4, 5, 6)
				}
				tally.Exec(t, pool, `DELETE FROM tidemark.outbox`)
				first := worker.Start(t, acrossConfig(url, "first", partitions))
				tally.SettleAcross(t, pool)
				first.Terminate(t)
				if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					for _, name := range []string{"boards", "lines", "sums", "pairs"} {
						if _, err := failed.Replay(t.Context(), tx, failed.ReplayRequest{
							Group: "default", Projection: name, Campaigns: []string{"1", "3", "4"},
						}, failed.Act{By: "ada", Reason: "a test"}); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				cfg := acrossConfig(url, "victim", partitions)
				cfg.HaltAt = at
				victim := worker.Start(t, cfg)
				victim.Halts(t)
				victim.Kill(t)
				tally.Append(t, pool, "b", 1, 3, 4, 6)
				for i := range 2 {
					worker.Start(t, acrossConfig(url, fmt.Sprint("successor ", i), partitions))
				}
				tally.Append(t, pool, "b", 1, 3, 4, 6)
				tally.SettleAcross(t, pool)
				tally.VerifyAcross(t, pool, nil)
			})
		}
	}
}

// TestAWorkerStoppedBeyondItsLeaseAcrossCampaigns stops a worker with SIGSTOP, and continues it
// after another one has applied its events and later ones.
func TestAWorkerStoppedBeyondItsLeaseAcrossCampaigns(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 3} {
		for _, at := range []kind.Step{worker.Applying, kind.StepApplied, kind.StepDeferring} {
			t.Run(fmt.Sprintf("when_it_has_%s_changes_nothing_in_%d_partitions", at, partitions), func(t *testing.T) {
				t.Parallel()
				pool, url := preparedAcross(t, partitions)
				cfg := acrossConfig(url, "stopped", partitions)
				if cfg.HaltAt = at; at == kind.StepDeferring {
					cfg.Refuses = 2
				}
				cfg.Patient = true // only the fence can refuse it
				stopped := worker.Start(t, cfg)
				stopped.Halts(t)
				stopped.Signal(t, syscall.SIGSTOP)
				stopped.Proceed(t)

				other := worker.Start(t, acrossConfig(url, "other", partitions))
				tally.Append(t, pool, "b", 2, 6)
				tally.SettleAcross(t, pool)
				tally.Append(t, pool, "a", 2, 3, 6)
				tally.SettleAcross(t, pool)
				tally.VerifyAcross(t, pool, nil)

				stopped.Signal(t, syscall.SIGCONT)
				tally.Eventually(t, "the stale group is over", tally.Holds(pool, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity
					WHERE application_name = 'stopped' AND datname = current_database() AND state LIKE 'idle in transaction%'
						AND xact_start < clock_timestamp() - interval '1 s')`))
				tally.VerifyAcross(t, pool, nil)
				other.Terminate(t)
			})
		}
	}
}

// TestKillsAtRandomCostNoEventAnythingAcrossCampaigns kills processes and the server at random. No
// event is to blame.
func TestKillsAtRandomCostNoEventAnythingAcrossCampaigns(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	if err := migrations.Up(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	pool := tally.Pool(t, server.URL(), "test", 6)
	registerAcross(t, pool, 3)
	r := &replicas{cfg: acrossConfig(server.URL(), "", 3)}
	r.cfg.PollInterval, r.cfg.GroupEvents = 100*time.Millisecond, 20
	r.start(t, 3)
	load := tally.Load{
		Pool: pool, Writers: 3, Campaigns: 40, Pause: 5 * time.Millisecond, Linger: 20 * time.Millisecond, Amounts: 30,
	}.Start(t)
	kills := time.NewTicker(400 * time.Millisecond)
	defer kills.Stop()
	for n := range 16 {
		<-kills.C
		if n%6 == 5 {
			if err := server.Restart(t.Context(), devpg.Immediate); err != nil {
				t.Fatal(err)
			}
			continue
		}
		victim := r.running[rand.IntN(len(r.running))]
		if !victim.Ended() {
			victim.Signal(t, syscall.SIGKILL)
			victim.Ends(t)
		}
		r.restart(t)
	}
	load.Stop(t, pool)
	r.until(t, "all is applied across campaigns", tally.AtTheEnd(pool))
	tally.VerifyAcross(t, pool, nil)
	if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.failure_log`); n > 0 {
		t.Errorf("%d failures are logged, for instance: %s", n, tally.Value[string](t, pool, `SELECT (f.*)::text FROM
			tidemark.failure_log f LIMIT 1`))
	}
	t.Logf("%d kills", r.crashes)
	for _, p := range r.running {
		p.Terminate(t)
	}
}

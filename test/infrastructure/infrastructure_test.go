package infrastructure_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const group = "default"

// world is a server with a worker, and work that the worker has done.
type world struct {
	server   *devpg.Server
	pool     *pgxpool.Pool // the test's own
	registry *prometheus.Registry
}

func newWorld(t *testing.T, change func(*projector.Config)) *world {
	t.Helper()
	w := &world{server: pgtest.Server(t), registry: prometheus.NewRegistry()}
	if err := migrations.Up(t.Context(), w.server.URL()); err != nil {
		t.Fatal(err)
	}
	w.pool = tally.Pool(t, w.server.URL()+"&default_transaction_read_only=off", "test", 4)
	w.run(t, change)
	tally.Eventually(t, "the worker lives", tally.Holds(w.pool, `SELECT count(*) = 2 FROM tidemark.projections
		WHERE state = 'active'`))
	return w
}

// run starts the world's worker.
func (w *world) run(t *testing.T, change func(*projector.Config)) {
	t.Helper()
	cfg := projector.Config{
		Pool: tally.Pool(t, w.server.URL(), "worker", 6), Projections: tally.Both(), Registerer: w.registry,
		LeaseTTL: time.Second, PollInterval: 100 * time.Millisecond, Concurrency: 3,
	}
	if change != nil {
		change(&cfg)
	}
	tally.Run(t, cfg)
}

// work appends to several campaigns.
func (w *world) work(t *testing.T) {
	t.Helper()
	for _, campaign := range []string{"a", "b", "c", "d", "before"} {
		tally.Append(t, w.pool, campaign, 1, 2, 3, 4, 5)
	}
}

// state returns the value of tidemark_breaker_state.
func (w *world) state(t *testing.T) float64 {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "tidemark_breaker_state" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no metric tidemark_breaker_state")
	return 0
}

// opens waits until the breaker is open.
func (w *world) opens(t *testing.T) {
	t.Helper()
	tally.Eventually(t, "the breaker opens", func(context.Context) (bool, error) { return w.state(t) == 2, nil })
}

// recovers expects that everything is applied, that no failure was recorded for an event, and that
// the breaker is closed.
func (w *world) recovers(t *testing.T) {
	t.Helper()
	tally.Settle(t, w.pool, group)
	tally.Verify(t, w.pool, "")
	if n := tally.Value[int](t, w.pool, `SELECT count(*) FROM tidemark.failure_log`); n > 0 {
		t.Errorf("%d failures were put down to events: %s", n, tally.Value[string](t, w.pool, `SELECT (f.*)::text FROM
			tidemark.failure_log f LIMIT 1`))
	}
	tally.Eventually(t, "the breaker closes", func(context.Context) (bool, error) { return w.state(t) == 0, nil })
}

// exec runs statements given as one text.
func (w *world) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := w.pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

const endWorker = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'worker'`

func TestAWorkerGetsOver(t *testing.T) {
	t.Parallel()
	t.Run("a_server_that_is_down", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		w.work(t)
		if err := w.server.Stop(t.Context(), devpg.Immediate); err != nil {
			t.Fatal(err)
		}
		w.opens(t)
		late := &world{server: w.server, pool: w.pool, registry: prometheus.NewRegistry()} // started now
		late.run(t, nil)
		late.opens(t)
		if err := w.server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.recovers(t)
		late.recovers(t)
	})
	t.Run("backends_that_are_killed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		for range 20 {
			w.work(t)
			w.exec(t, endWorker)
		}
		w.recovers(t)
	})
	t.Run("connections_that_others_have_taken_all", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		w.exec(t, `ALTER SYSTEM SET max_connections = 20`)
		if err := w.server.Restart(t.Context(), devpg.Fast); err != nil {
			t.Fatal(err)
		}
		tally.Eventually(t, "the server answers", tally.Holds(w.pool, `SELECT true`))
		var crowd []*pgx.Conn
		cfg := w.pool.Config().ConnConfig.Copy()
		cfg.RuntimeParams["application_name"] = "crowd"
		for t.Context().Err() == nil {
			conn, err := pgx.ConnectConfig(t.Context(), cfg)
			if err == nil {
				crowd = append(crowd, conn)
				continue
			}
			if tally.Value[int](t, w.pool, endWorker) == 0 {
				break
			}
		}
		w.work(t)
		w.opens(t)
		for _, conn := range crowd {
			if err := conn.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		w.recovers(t)
	})
	t.Run("a_server_that_only_reads", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		w.exec(t, `ALTER SYSTEM SET default_transaction_read_only = on`)
		w.exec(t, `SELECT pg_reload_conf()`)
		w.work(t)
		w.opens(t)
		w.exec(t, `ALTER SYSTEM RESET default_transaction_read_only`)
		w.exec(t, `SELECT pg_reload_conf()`)
		w.recovers(t)
	})
	t.Run("locks_that_are_held_for_long", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(cfg *projector.Config) { cfg.ApplyTimeout = 2 * time.Second })
		tx, err := w.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `LOCK TABLE entries, tallies IN EXCLUSIVE MODE`); err != nil {
			t.Fatal(err)
		}
		w.work(t)
		tally.Eventually(t, "what waits is behind", tally.Holds(w.pool, `SELECT count(*) > 0 AND
			bool_and(error_class = 'lock' AND attempt_count = 0) FROM tidemark.failed`))
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		tally.Settle(t, w.pool, group)
		tally.Eventually(t, "what waited is applied", tally.Holds(w.pool, `SELECT count(*) = 0 FROM tidemark.failed`))
		tally.Verify(t, w.pool, "")
	})
	t.Run("a_disk_that_is_full", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		// Our own rows of what waits find no room either.
		room, ours := w.fill(t, "entries"), w.fill(t, "tidemark.failed")
		w.work(t)
		w.opens(t)
		ours()
		room()
		w.recovers(t)
	})
	t.Run("a_disk_that_is_full_for_one_projection", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		room := w.fill(t, "entries")
		w.work(t)
		w.waits(t)
		room()
		tally.Settle(t, w.pool, group)
		tally.Verify(t, w.pool, "")
	})
	t.Run("a_small_tablespace_that_is_full", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		room := w.smallDisk(t, "entries")
		if room == nil {
			room = w.fill(t, "entries")
		}
		w.work(t)
		w.waits(t)
		room()
		tally.Settle(t, w.pool, group)
		tally.Verify(t, w.pool, "")
	})
}

// waits expects that the projection with the table entries waits alone, with rows that name the error and
// count no attempt. The other one goes on, and the breaker does not open.
func (w *world) waits(t *testing.T) {
	t.Helper()
	tally.Eventually(t, "the other projection goes on, and rows name the error", tally.Holds(w.pool, `SELECT
		(SELECT count(*) FROM tallies) >= 5 AND count(*) >= 5 AND bool_and(d.projection = 'entries' AND d.status = 'failed'
			AND d.error_class = 'infrastructure' AND d.error_code = '53100' AND d.attempt_count = 0
			AND d.error_message LIKE '%No space left on device%')
		FROM tidemark.failed d WHERE d.last_failed_at IS NOT NULL`))
	if state := w.state(t); state != 0 {
		t.Errorf("the breaker has the state %v, want 0", state)
	}
}

// TestALargeEventDoesNotDieOfAFullDisk has room for small events and none for a large one: its text would go to
// the table's TOAST table.
func TestALargeEventDoesNotDieOfAFullDisk(t *testing.T) {
	t.Parallel()
	bodies, err := sqlfile.Load(fstest.MapFS{"f.sql": {Data: []byte(`-- projection: bodies
-- version: 1
CREATE TABLE bodies (campaign_id text COLLATE "C" NOT NULL, seq bigint NOT NULL, body text NOT NULL);
-- on: written
INSERT INTO bodies VALUES (event.campaign_id, event.seq, event.payload->>'body');
`)}}, "f.sql")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(cfg *projector.Config) {
		cfg.Projections = []projection.Projection{bodies, tally.Tallies("")}
		cfg.OnFailure = projection.Policy{Attempts: 2, Base: time.Millisecond}
	})
	room := w.fill(t, tally.Value[string](t, w.pool, `SELECT reltoastrelid::regclass::text FROM pg_class
		WHERE oid = 'bodies'::regclass`))
	large := make([]byte, 30_000) // random, or it would be compressed into its row
	_, _ = rand.Read(large)
	write := func(campaign, body string) {
		t.Helper()
		e := event.Event{Type: "written", Payload: fmt.Appendf(nil, `{"body": %q}`, body)}
		tally.AppendAll(t, w.pool, journal.Batch{CampaignID: campaign, Events: []event.Event{e}})
	}
	write("large", base64.StdEncoding.EncodeToString(large))
	for i := range 20 {
		write(fmt.Sprint("small", i), "small")
	}
	tally.Eventually(t, "the small ones are applied", tally.Holds(w.pool, `SELECT count(*) = 20 FROM bodies`))
	const waiting = `SELECT d.last_failed_at FROM tidemark.failed d WHERE d.campaign_id = 'large'
		AND d.status = 'failed' AND d.error_class = 'infrastructure' AND d.error_code = '53100' AND d.attempt_count = 0`
	for range 4 { // more than it has attempts
		tally.Eventually(t, "the large one waits", tally.Holds(w.pool, `SELECT EXISTS (`+waiting+`)`))
		tried := tally.Value[time.Time](t, w.pool, waiting)
		w.exec(t, `UPDATE tidemark.failed SET next_attempt_at = now()`)
		tally.Eventually(t, "it is tried again", tally.Holds(w.pool, `SELECT EXISTS (`+waiting+`
			AND d.last_failed_at > $1)`, tried))
	}
	if state := w.state(t); state != 0 {
		t.Errorf("the breaker has the state %v, want 0", state)
	}
	room()
	w.exec(t, `UPDATE tidemark.failed SET next_attempt_at = now()`)
	tally.Settle(t, w.pool, group)
	if got := tally.Value[int](t, w.pool, `SELECT count(*) FROM bodies`); got != 21 {
		t.Errorf("%d rows, want 21", got)
	}
}

// fill leaves no room for an empty table to grow until the returned function is called.
func (w *world) fill(t *testing.T, table string) (room func()) {
	t.Helper()
	file := filepath.Join(tally.Value[string](t, w.pool, `SHOW data_directory`),
		tally.Value[string](t, w.pool, `SELECT pg_relation_filepath($1)`, table))
	if err := errors.Join(os.Rename(file, file+".kept"), os.Symlink("/dev/full", file)); err != nil {
		t.Fatal(err)
	}
	w.exec(t, endWorker) // closes the worker's open files
	return func() {
		t.Helper()
		if err := os.Rename(file+".kept", file); err != nil {
			t.Fatal(err)
		}
		w.exec(t, endWorker)
	}
}

package admin_test

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
)

// A batch whose process dies leaves nothing behind, and another process continues with it.
func TestABulkActGoesOnWhereAProcessHasDied(t *testing.T) {
	t.Parallel()
	pool, acts := database(t, 101)
	outcome, err := startBulk(t, acts, as(auth.Operator),
		admin.Bulk{Kind: admin.OpRequeue, Failed: &admin.FailedFilter{}}, "requeue 101")
	op := operation(t, outcome, err)
	dying := runner(t, pool, nil)
	if worked, err := dying.Step(t.Context()); !worked || err != nil {
		t.Fatal(worked, err)
	}
	// The second batch has requeued its campaigns and waits before it records that.
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	var holder int
	if err := tx.QueryRow(t.Context(), `SELECT pg_backend_pid() FROM tidemark.operation_items
		WHERE ord = 60 FOR UPDATE`).Scan(&holder); err != nil {
		t.Fatal(err)
	}
	died := make(chan error, 1)
	go func() {
		_, err := dying.Step(t.Context())
		died <- err
	}()
	ended := false
	for deadline := time.After(2 * time.Minute); !ended; {
		if err := pool.QueryRow(t.Context(), `SELECT coalesce(bool_or(pg_terminate_backend(a.pid)), false)
			FROM pg_stat_activity a
			WHERE a.datname = current_database() AND $1 = ANY (pg_blocking_pids(a.pid))`, holder).Scan(&ended); err != nil {
			t.Fatal(err)
		}
		select {
		case <-deadline:
			t.Fatal("no batch waits")
		case <-time.After(time.Millisecond):
		}
	}
	if err := <-died; err == nil {
		t.Error("a process whose connection was cut has done a batch")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := acts.Operation(t.Context(), op.ID); err != nil || got.State != "running" || got.Done != 40 {
		t.Fatalf("it is %+v, %v", got, err)
	}
	other := runner(t, pool, func(c *admin.RunnerConfig) { c.Owner = "other" })
	// The server can hold the dead session's locks a moment longer.
	for deadline := time.After(2 * time.Minute); scan[string](t, pool,
		`SELECT state FROM tidemark.operations`) == "running"; {
		if _, err := other.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-deadline:
			t.Fatal("nobody goes on with it")
		case <-time.After(time.Millisecond):
		}
	}
	if got, err := acts.Operation(t.Context(), op.ID); err != nil || got.State != "done" || got.Done != 101 ||
		got.Skipped != 0 || got.Failed != 0 {
		t.Errorf("in the end it is %+v, %v", got, err)
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.failure_log WHERE act = 'requeued'`); n != 101 {
		t.Errorf("%d pairs were requeued, want each once", n)
	}
}

package publish_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/test/support/tally"
)

// worker is a worker process: the service, with the tests' broker as an additional kind of sink.
type worker struct {
	name string
	cmd  *exec.Cmd
	end  func() error // waits for it to end
}

// spawn starts a worker with the given YAML, in which ${WORKER} is its name, and additional
// environment variables. It is killed at the end of the test.
func spawn(t *testing.T, pool *pgxpool.Pool, name, publishers string, env ...string) *worker {
	t.Helper()
	file := filepath.Join(t.TempDir(), "publishers.yaml")
	if err := os.WriteFile(file, []byte(publishers), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &worker{name: name, cmd: exec.Command(os.Args[0])}
	w.cmd.Env = append(os.Environ(), workerEnv+"=1", "WORKER="+name, "PGAPPNAME="+name, "TIDEMARK_DATABASE_URL="+
		pool.Config().ConnString(), "TIDEMARK_PUBLISHERS="+file,
		"TIDEMARK_LEASE_TTL=1s", "TIDEMARK_PUBLISH_POLL_INTERVAL=50ms", "TIDEMARK_HTTP_ADDR=off", "TIDEMARK_LOG_FORMAT=json",
		"TIDEMARK_LOG_LEVEL=warn")
	w.cmd.Env = append(w.cmd.Env, env...) // of duplicates the last one counts
	var log bytes.Buffer                  // complete once the process has ended
	w.cmd.Stderr = &log
	stdin, err := w.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.end = sync.OnceValue(w.cmd.Wait)
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		_ = w.end()
		_ = stdin.Close()
		if t.Failed() {
			t.Logf("worker %s: %s", name, log.String())
		}
	})
	return w
}

// kill sends SIGKILL to a worker.
func (w *worker) kill(t *testing.T) {
	t.Helper()
	w.signal(t, syscall.SIGKILL)
	_ = w.end() // the process state tells how it ended
}

// terminate asks a worker to stop, and fails the test if it ends with an error.
func (w *worker) terminate(t *testing.T) {
	t.Helper()
	w.signal(t, syscall.SIGTERM)
	if err := w.end(); err != nil {
		t.Errorf("worker %s ended with: %v", w.name, err)
	}
}

func (w *worker) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// holds waits until the worker holds a pair.
func (w *worker) holds(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	tally.Eventually(t, w.name+" holds a pair", tally.Holds(pool, `SELECT EXISTS (SELECT FROM tidemark.readers p
		JOIN tidemark.relays r USING (owner)
		WHERE r.pid = $1 AND p.expires_at > clock_timestamp())`, w.cmd.Process.Pid))
}

// replaced waits until other workers hold all pairs.
func (w *worker) replaced(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	tally.Eventually(t, "others hold what "+w.name+" had", tally.Holds(pool, `SELECT bool_and(p.expires_at >
		clock_timestamp() AND r.pid <> $1)
		FROM tidemark.readers p JOIN tidemark.relays r USING (owner)`, w.cmd.Process.Pid))
}

// file configures three publishers to a broker: two topics in campaign order, and one in global
// order.
func file(addr string) string {
	return fmt.Sprintf(`
topics:
  everything:
  told: {event_types: [told]}
publishers:
  out:
    topics: [everything, told]
    sink: broker://%[1]s?from=${WORKER}
    batch_size: 20
    backoff_max: 200ms
  other:
    topics: [everything, told]
    sink: broker://%[1]s?from=${WORKER}
    batch_size: 7
    concurrency: 2
    backoff_max: 200ms
  global:
    topics: [everything]
    sink: broker://%[1]s?from=${WORKER}
    order: global
    backoff_max: 200ms
`, addr)
}

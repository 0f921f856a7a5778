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

// worker is a worker in a process of its own: the service, with the tests' broker as one more kind of sink.
type worker struct {
	name string
	cmd  *exec.Cmd
	end  func() error // waits for it
}

// spawn starts a worker on what a YAML file says, in which ${WORKER} is its name, with more of an
// environment if needed. The test's end kills it.
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
	w.cmd.Env = append(w.cmd.Env, env...) // of two, the last one counts
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

// kill ends a worker as kill -9 does.
func (w *worker) kill(t *testing.T) {
	t.Helper()
	w.signal(t, syscall.SIGKILL)
	_ = w.end() // its state says how it ended
}

// terminate asks a worker to stop, and fails the test if it does not end well.
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

// holds waits until a worker publishes a pair.
func (w *worker) holds(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	tally.Eventually(t, w.name+" holds a pair", tally.Holds(pool, `SELECT EXISTS (SELECT FROM tidemark.publications p
		JOIN tidemark.relays r USING (owner)
		WHERE r.pid = $1 AND p.expires_at > clock_timestamp())`, w.cmd.Process.Pid))
}

// replaced waits until all pairs are held by others.
func (w *worker) replaced(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	tally.Eventually(t, "others hold what "+w.name+" had", tally.Holds(pool, `SELECT bool_and(p.expires_at >
		clock_timestamp() AND r.pid <> $1)
		FROM tidemark.publications p JOIN tidemark.relays r USING (owner)`, w.cmd.Process.Pid))
}

// file is three publishers at a broker: two topics in the order of campaigns, and one in that of positions.
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

package modes_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/program"
)

const projection = `-- projection: notes
-- version: 1

CREATE TABLE notes (campaign_id text, seq bigint, PRIMARY KEY (campaign_id, seq));

-- on: noted
INSERT INTO notes VALUES (event.campaign_id, event.seq);
`

// process is a worker process with its output.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error

	mu   sync.Mutex
	said strings.Builder
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// await waits until the process's output matches the pattern, and returns the first submatch.
func (p *process) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(3 * time.Minute)
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		if m := re.FindStringSubmatch(p.output()); m != nil {
			tick.Stop()
			return m[len(m)-1]
		}
		select {
		case <-tick.C:
		case <-p.done:
			if re.MatchString(p.output()) {
				continue
			}
			t.Fatalf("it ended without %q: %v\n%s", pattern, p.err, p.output())
		case <-deadline:
			t.Fatalf("it has not said %q:\n%s", pattern, p.output())
		}
	}
}

func build(t *testing.T) string {
	t.Helper()
	binary, err := program.Build(t.Context(), "cmd/worker")
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func start(t *testing.T, binary, url, dir string, env ...string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "--database-url", url, "--projections-dir", dir, "--http-addr",
		"127.0.0.1:0", "--poll-interval", "50ms", "--log-format", "json")
	cmd.Env = append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			p.mu.Lock()
			p.said.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-p.done
	})
	return p
}

func count(t *testing.T, db outbox.DB, sql string) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func workItems(t *testing.T, db outbox.DB, want int) {
	t.Helper()
	if n := count(t, db, `SELECT count(*) FROM tidemark.outbox`); n != want {
		t.Errorf("there are %d work items, want %d", n, want)
	}
}

func eventually(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	for tick := time.NewTicker(10 * time.Millisecond); count(t, pool, sql) == 0; {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("in vain: %s", sql)
		}
	}
}

// TestTheWorkerRunsInTheModeOfItsSwitches starts the worker with each combination of switches,
// appends an event, and checks how it is applied.
func TestTheWorkerRunsInTheModeOfItsSwitches(t *testing.T) {
	t.Parallel()
	binary, dir := build(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.sql"), []byte(projection), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		outbox, worker, shadow bool
		mode                   string // empty: the worker does not start
	}{
		{false, false, false, "inline_apply_only"},
		{true, true, false, "outbox_apply_only"},
		{true, false, true, "shadow_only"},
		{true, false, false, "enqueue_only"},
		{true, true, true, "outbox_apply_only"},
		{false, true, false, ""},
		{false, false, true, ""},
		{false, true, true, ""},
	} {
		t.Run(fmt.Sprintf("outbox_%t_worker_%t_shadow_%t", row.outbox, row.worker, row.shadow), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			p := start(t, binary, pool.Config().ConnString(), dir,
				fmt.Sprintf("TIDEMARK_PROJECTION_APPLY_OUTBOX_ENABLED=%t", row.outbox),
				fmt.Sprintf("TIDEMARK_PROJECTION_APPLY_OUTBOX_WORKER_ENABLED=%t", row.worker),
				fmt.Sprintf("TIDEMARK_PROJECTION_APPLY_OUTBOX_SHADOW_WORKER_ENABLED=%t", row.shadow))
			if row.mode == "" {
				<-p.done
				if p.err == nil || !strings.Contains(p.output(), "needs the outbox") {
					t.Errorf("it ended with %v:\n%s", p.err, p.output())
				}
				return
			}
			if mode := p.await(t, `"worker starts".*"mode":"([a-z_]+)"`); mode != row.mode {
				t.Errorf("it runs in mode %s, want %s", mode, row.mode)
			}
			if warned := strings.Contains(p.output(), "takes precedence"); warned != (row.worker && row.shadow) {
				t.Errorf("it warned: %t\n%s", warned, p.output())
			}
			address := p.await(t, `"health and metrics","address":"([^"]+)"`)
			eventually(t, pool, `SELECT count(*) FROM tidemark.consumer_groups WHERE state <> 'filing'`)
			if row.mode != "enqueue_only" {
				eventually(t, pool, `SELECT count(*) FROM tidemark.projections WHERE state = 'active'`)
			}
			enqueued := 1
			if row.mode == "inline_apply_only" {
				enqueued = 0
			}
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				if _, err := (journal.Journal{}).Append(t.Context(), tx, "c", journal.Any, event.Event{Type: "noted"}); err != nil {
					return err
				}
				// Check before others see the event: a worker that has just started files campaigns
				// that were not applied inline.
				workItems(t, tx, enqueued)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			switch row.mode {
			case "outbox_apply_only":
				eventually(t, pool, `SELECT count(*) FROM notes`)
				workItems(t, pool, 0)
			case "shadow_only":
				p.await(t, `"shadow: would have been applied","projection":"notes","events":1}`)
				if n := count(t, pool, `SELECT count(*) FROM notes`); n != 0 {
					t.Errorf("the shadow has applied %d", n)
				}
				workItems(t, pool, 1)
			case "enqueue_only":
				workItems(t, pool, 1)
			}
			healthy(t, "http://"+address+"/healthz")
			healthy(t, "http://"+address+"/readyz")
		})
	}
}

func healthy(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Errorf("%s answers %s", url, response.Status)
	}
}

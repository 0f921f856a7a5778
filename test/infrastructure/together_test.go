package infrastructure_test

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/program"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// process is a program whose output the test prints if the program fails.
type process struct {
	*exec.Cmd
	out bytes.Buffer // complete once it has ended
}

func start(t *testing.T, binary, url string, env ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(binary)}
	if filepath.Base(binary) == "cmd-migrate" {
		p.Args = append(p.Args, "up")
	}
	p.Env = append(append(os.Environ(), "TIDEMARK_DATABASE_URL="+url), env...)
	p.Stdout, p.Stderr = &p.out, &p.out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.ProcessState == nil { // the test ended before it waited
			_ = p.Process.Kill()
			_ = p.Wait()
			t.Logf("%s: %s", filepath.Base(p.Path), &p.out)
		}
	})
	return p
}

// ends waits for programs that exit by themselves.
func ends(t *testing.T, processes []*process) {
	t.Helper()
	for _, p := range processes {
		if err := p.Wait(); err != nil {
			t.Errorf("%s: %v: %s", filepath.Base(p.Path), err, &p.out)
		}
	}
}

// Owners watch their server's log: programs that start together must leave no error in it.
func TestProgramsThatStartTogetherLeaveNoErrorInTheServersLog(t *testing.T) {
	t.Parallel()
	const rounds, together = 3, 3
	migrate, err := program.Build(t.Context(), "cmd/migrate")
	if err != nil {
		t.Fatal(err)
	}
	worker, err := program.Build(t.Context(), "cmd/worker")
	if err != nil {
		t.Fatal(err)
	}
	projections := map[string]string{} // folders, by consumer group
	for group, names := range map[string][]string{"default": {"first", "second", "third"}, "other": {"fourth", "fifth"}} {
		projections[group] = t.TempDir()
		for _, name := range names {
			text := fmt.Sprintf("-- projection: %[1]s\n-- version: 1\n"+
				"CREATE TABLE %[1]s (campaign_id text, seq bigint, PRIMARY KEY (campaign_id, seq));\n"+
				"-- on: added\nINSERT INTO %[1]s VALUES (event.campaign_id, event.seq);\n", name)
			if err := os.WriteFile(filepath.Join(projections[group], name+".sql"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	server := pgtest.Server(t)
	admin := tally.Pool(t, server.URL(), "test", 1)
	faults := regexp.MustCompile(`(?m)^.*(WARNING|ERROR|FATAL|PANIC): .*(\n.*(DETAIL|HINT|CONTEXT|STATEMENT): .*)*`)
	for round := range rounds {
		before := serverLog(t, server)
		address := database(t, server.URL(), fmt.Sprint("together", round))
		tally.Exec(t, admin, fmt.Sprint("CREATE DATABASE together", round, " TEMPLATE template0"))
		var migrations, workers []*process
		for range together {
			migrations = append(migrations, start(t, migrate, address))
		}
		ends(t, migrations)
		pool := tally.Pool(t, address, "test", 2)
		for group, dir := range projections {
			for range together {
				workers = append(workers, start(t, worker, address, "TIDEMARK_CONSUMER_GROUP="+group, "TIDEMARK_PROJECTIONS_DIR="+
					dir,
					"TIDEMARK_PUBLISH_URL="+address+"&table=tidemark_views.sent", "TIDEMARK_HTTP_ADDR=127.0.0.1:0",
					"TIDEMARK_ADMIN_ADDR=127.0.0.1:0", "TIDEMARK_ADMIN_ANONYMOUS=viewer",
					"TIDEMARK_POLL_INTERVAL=50ms", "TIDEMARK_PUBLISH_POLL_INTERVAL=50ms"))
			}
		}
		tally.Eventually(t, "all workers live", tally.Holds(pool, `SELECT count(*) = $1 FROM tidemark.workers`, len(workers)))
		for i := range 20 {
			tally.Append(t, pool, fmt.Sprint("campaign ", i), 1, 2)
		}
		for _, table := range []string{"first", "second", "third", "fourth", "fifth", "sent"} {
			tally.Eventually(t, table+" is there", tally.Holds(pool, `SELECT to_regclass('tidemark_views.`+table+`') IS NOT NULL`))
			tally.Eventually(t, table+" has all events", tally.Holds(pool, `SELECT count(*) = 40 FROM tidemark_views.`+table))
		}
		said := serverLog(t, server)[len(before):]
		for _, fault := range faults.FindAllString(said, -1) {
			if !strings.Contains(fault, "due to lock timeout") { // their waits for the registry, 300 ms each
				t.Errorf("in round %d the server's log has\n%s", round, fault)
			}
		}
		for _, w := range workers {
			if err := w.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		ends(t, workers)
	}
}

func serverLog(t *testing.T, server *devpg.Server) string {
	t.Helper()
	log, err := server.Log()
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// database returns the server's address with another database.
func database(t *testing.T, address, name string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

package infrastructure_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/program"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// standbySocket is the standby's port number. The standby listens on a socket in its own folder, so
// no free port is needed.
const standbySocket = 5432

// pair is a primary with a standby that has everything the primary has acknowledged.
type pair struct {
	primary *devpg.Server
	dir     string // folder of the standby's socket
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{primary: pgtest.Server(t)}
	if err := migrations.Up(t.Context(), p.primary.URL()); err != nil {
		t.Fatal(err)
	}
	pool := tally.Pool(t, p.primary.URL(), "test", 2)
	data := tally.Value[string](t, pool, `SHOW data_directory`)
	bin := tally.Value[string](t, pool, `SELECT setting FROM pg_config() WHERE name = 'BINDIR'`)
	port := tally.Value[string](t, pool, `SHOW port`)
	user := ownerOf(t, data)

	// Beside the primary's folder, which the server's user can reach even where it cannot reach the
	// test's folders.
	p.dir = filepath.Join(filepath.Dir(data), "standby")
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if user != nil {
		if err := os.Chown(p.dir, int(user.Uid), int(user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	copied := filepath.Join(p.dir, "pg")
	backup := exec.CommandContext(t.Context(), filepath.Join(bin, "pg_basebackup"), "-h", "127.0.0.1", "-p", port, "-U",
		"postgres", "-D", copied, "-R", "-X", "stream", "-c", "fast", "--no-sync")
	backup.Dir, backup.SysProcAttr = p.dir, &syscall.SysProcAttr{Credential: user}
	if out, err := backup.CombinedOutput(); err != nil {
		t.Fatalf("copy the primary: %v: %s", err, out)
	}
	p.start(t, exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(bin, "postgres"), "-D", copied, "-p",
		fmt.Sprint(standbySocket),
		"-c", "listen_addresses=", "-c", "unix_socket_directories="+p.dir), user)

	// From here on the primary acknowledges only commits that the standby has.
	set(t, pool, "synchronous_standby_names", "*")
	tally.Eventually(t, "the standby has what the primary acknowledges", tally.Holds(pool, `SELECT count(*) = 1 FROM
		pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'`))
	return p
}

// start runs the standby's server until the test ends.
func (p *pair) start(t *testing.T, server *exec.Cmd, user *syscall.Credential) {
	t.Helper()
	var log strings.Builder
	server.Dir, server.SysProcAttr = p.dir, &syscall.SysProcAttr{Credential: user}
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Process.Signal(syscall.SIGQUIT); err != nil {
			t.Errorf("stop the standby: %v", err)
		}
		_ = server.Wait() // the signal makes it exit with an error
		if t.Failed() {
			t.Logf("the standby's log:\n%s", log.String())
		}
	})
	pool := tally.Pool(t, p.standbyURL(), "test", 1)
	tally.Eventually(t, "the standby answers", tally.Holds(pool, `SELECT pg_is_in_recovery()`))
}

func (p *pair) standbyURL() string {
	return fmt.Sprintf("postgres://postgres@/%s?host=%s&port=%d&sslmode=disable", devpg.Database, p.dir, standbySocket)
}

// bothURL returns a connection string for both servers that selects the writable one.
func (p *pair) bothURL(t *testing.T) string {
	t.Helper()
	cfg := tally.Pool(t, p.primary.URL(), "test", 1).Config().ConnConfig
	return fmt.Sprintf("host=%s,%s port=%d,%d user=postgres dbname=%s sslmode=disable target_session_attrs=read-write",
		cfg.Host, p.dir, cfg.Port, standbySocket, devpg.Database)
}

// set changes a setting of a server.
func set(t *testing.T, pool *pgxpool.Pool, name, value string) {
	t.Helper()
	tally.Exec(t, pool, fmt.Sprintf(`ALTER SYSTEM SET %s = '%s'`, name, value))
	tally.Exec(t, pool, `SELECT pg_reload_conf()`)
}

// forsake makes the primary acknowledge commits that the standby does not have and never gets.
func (p *pair) forsake(t *testing.T) {
	t.Helper()
	primary := tally.Pool(t, p.primary.URL(), "test", 1)
	set(t, primary, "synchronous_standby_names", "")
	tally.Eventually(t, "the primary waits for no standby",
		tally.Holds(primary, `SELECT current_setting('synchronous_standby_names') = ''`))
	set(t, tally.Pool(t, p.standbyURL(), "test", 1), "primary_conninfo", "")
	tally.Eventually(t, "the standby is alone", tally.Holds(primary, `SELECT count(*) = 0 FROM pg_stat_replication`))
}

// promote makes the standby the primary.
func (p *pair) promote(t *testing.T) {
	t.Helper()
	pool := tally.Pool(t, p.standbyURL(), "test", 1)
	tally.Exec(t, pool, `SELECT pg_promote(false)`)
	tally.Eventually(t, "the standby is the primary", tally.Holds(pool, `SELECT NOT pg_is_in_recovery()`))
}

// ownerOf returns the user that a server with that folder runs as; nil: the test's own user.
func ownerOf(t *testing.T, data string) *syscall.Credential {
	t.Helper()
	info, err := os.Stat(data)
	if err != nil {
		t.Fatal(err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatalf("the owner of %s is unknown", data)
	}
	if int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
}

func TestAWorkerThatIsPointedAtAStandbyDoesNotStart(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	dir := t.TempDir()
	const projection = "-- projection: seen\n-- version: 1\nCREATE TABLE seen (campaign_id text, seq bigint, PRIMARY " +
		"KEY (campaign_id, seq));\n-- on: added\nINSERT INTO seen VALUES (event.campaign_id, event.seq);\n"
	if err := os.WriteFile(filepath.Join(dir, "seen.sql"), []byte(projection), 0o600); err != nil {
		t.Fatal(err)
	}
	binary, err := program.Build(t.Context(), "cmd/worker")
	if err != nil {
		t.Fatal(err)
	}
	// The worker does not wait for the standby's promotion.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "--database-url", p.standbyURL(), "--projections-dir", dir,
		"--http-addr", "127.0.0.1:0").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the worker ended with %v, want exit code 1", err)
	}
	if want := "the server is a read-only standby: connect to the primary"; !strings.Contains(string(out), want) {
		t.Errorf("the worker said %s\nwant: %s", out, want)
	}
}

// TestAWorkerSurvivesAPromotion keeps writers appending and a worker applying while the primary
// dies and its standby takes over.
func TestAWorkerSurvivesAPromotion(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	both := p.bothURL(t)
	pool := tally.Pool(t, both, "writers", 6)
	tally.Run(t, projector.Config{
		Pool: tally.Pool(t, both, "worker", 6), Projections: tally.Both(), LeaseTTL: time.Second,
		PollInterval: 50 * time.Millisecond, Concurrency: 3,
	})
	load := tally.Load{Pool: pool, Writers: 4, Campaigns: 40, Pause: 5 * time.Millisecond}.Start(t)
	grows := func(what string) {
		t.Helper()
		before := load.Appended()
		tally.Eventually(t, what, func(context.Context) (bool, error) { return load.Appended() >= before+200, nil })
	}
	grows("appends go on")
	tally.Eventually(t, "the worker applies", tally.Holds(pool, `SELECT count(*) > 100 FROM entries`))
	if err := p.primary.Stop(t.Context(), devpg.Immediate); err != nil {
		t.Fatal(err)
	}
	p.promote(t)
	grows("appends go on, on the new primary")
	load.Stop(t, pool)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
	if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.failure_log`); n > 0 {
		t.Errorf("%d failures were put down to events: %s", n, tally.Value[string](t, pool, `SELECT (f.*)::text FROM
			tidemark.failure_log f LIMIT 1`))
	}
}

// A standby has the sequence ahead of the rows. A reader that trusted it would skip events that
// arrive later.
func TestAStandbyDoesNotSayHowFarTheJournalCanBeRead(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	tally.Append(t, tally.Pool(t, p.primary.URL(), "test", 1), "c", 1, 2)
	pool := tally.Pool(t, p.standbyURL(), "test", 2)
	tally.Eventually(t, "the standby shows the events", tally.Holds(pool, `SELECT count(*) = 2 FROM tidemark.journal`))
	var refused *pgconn.PgError
	if _, err := feed.Floor(t.Context(), pool); !errors.As(err, &refused) || refused.Code != "TM012" ||
		!strings.Contains(refused.Hint, "on the primary") {
		t.Errorf("the floor: %v", err)
	}
	read := 0
	for _, err := range journal.ReadAll(t.Context(), pool, 0) {
		if read++; !errors.As(err, &refused) || refused.Code != "TM012" {
			t.Errorf("the whole journal: %v", err)
		}
	}
	if read != 1 {
		t.Errorf("the whole journal answers %d times, want an error", read)
	}
	campaign := 0
	for _, err := range journal.ReadCampaign(t.Context(), pool, "c", 0) {
		if campaign++; err != nil {
			t.Errorf("a campaign: %v", err)
		}
	}
	if campaign != 2 {
		t.Errorf("the campaign has %d events, want 2", campaign)
	}
	findings, err := doctor.Run(t.Context(), pool, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(findings, func(f doctor.Finding) bool { return f.Check == "recovery" })
	if i < 0 || findings[i].Status != doctor.Fail {
		t.Errorf("the doctor finds %+v", findings)
	}
}

// TestEventsThatAFailoverLostAreGhosts promotes a standby that lacks the primary's last commits
// after their events were published.
func TestEventsThatAFailoverLostAreGhosts(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	pool, sink := tally.Pool(t, p.bothURL(t), "test", 4), &memory.Sink{}
	relay, err := publisher.New(publisher.Config{
		Pool: tally.Pool(t, p.bothURL(t), "relay", publisher.Connections+1), LeaseTTL: 2 * time.Second,
		PollInterval: 20 * time.Millisecond,
		Topics:       []publisher.Topic{{Name: "all"}}, Publishers: []publisher.Publisher{{
			Name: "out", Sink: sink,
			Topics: []string{"all"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	t.Cleanup(func() {
		if cancel(); <-ended != nil {
			t.Error("the relay ended with an error")
		}
	})
	arrived := func(n int) func(context.Context) (bool, error) {
		return func(context.Context) (bool, error) { return len(sink.Received()) >= n, nil }
	}
	tally.Append(t, pool, "kept", 1, 2, 3)
	tally.Append(t, pool, "torn", 1)
	tally.Eventually(t, "what both servers have is published", arrived(4))
	p.forsake(t)
	tally.Append(t, pool, "torn", 2, 3)
	tally.Append(t, pool, "lost", 1, 2, 3)
	tally.Eventually(t, "what is lost is published", arrived(9))
	if err := p.primary.Stop(t.Context(), devpg.Immediate); err != nil {
		t.Fatal(err)
	}
	p.promote(t)
	pool.Reset()
	tally.Append(t, pool, "torn", 4)
	var ghosts []publications.Ghost
	tally.Eventually(t, "ghosts are found", func(ctx context.Context) (bool, error) {
		ghosts, err = publications.ListGhosts(ctx, pool, publications.GhostFilter{Publisher: "out"})
		return len(ghosts) > 0, err
	})
	var found []string
	for _, g := range ghosts {
		found = append(found, fmt.Sprintf("%s %d: %s", g.CampaignID, g.Seq, g.Now))
	}
	if got, want := strings.Join(found, ", "),
		"torn 2: another event, torn 3: nothing, lost 1: nothing, lost 2: nothing, lost 3: nothing"; got != want {
		t.Errorf("ghosts are %s\nwant %s", got, want)
	}
}

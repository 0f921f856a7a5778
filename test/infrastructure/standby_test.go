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
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/program"
	"github.com/tidemark-go/tidemark/test/support/standby"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestAWorkerThatIsPointedAtAStandbyDoesNotStart(t *testing.T) {
	t.Parallel()
	p := standby.New(t)
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
	out, err := exec.CommandContext(ctx, binary, "--database-url", p.StandbyURL(), "--projections-dir", dir,
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
	p := standby.New(t)
	both := p.BothURL(t)
	pool := tally.Pool(t, both, "writers", 6)
	tally.Run(t, projector.Config{
		Pool: tally.Pool(t, both, "worker", 6), Projections: tally.Both(), LeaseTTL: time.Second,
		PollInterval: 100 * time.Millisecond, Concurrency: 3,
	})
	load := tally.Load{Pool: pool, Writers: 4, Campaigns: 40, Pause: 5 * time.Millisecond}.Start(t)
	grows := func(what string) {
		t.Helper()
		before := load.Appended()
		tally.Eventually(t, what, func(context.Context) (bool, error) { return load.Appended() >= before+200, nil })
	}
	grows("appends go on")
	tally.Eventually(t, "the worker applies", tally.Holds(pool, `SELECT count(*) > 100 FROM entries`))
	if err := p.Primary.Stop(t.Context(), devpg.Immediate); err != nil {
		t.Fatal(err)
	}
	p.Promote(t)
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
	p := standby.New(t)
	tally.Append(t, tally.Pool(t, p.Primary.URL(), "test", 1), "c", 1, 2)
	pool := tally.Pool(t, p.StandbyURL(), "test", 2)
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

// TestAStandbyNamesThePrimaryForLooksIntoThePast verifies, and asks for an earlier state.
func TestAStandbyNamesThePrimaryForLooksIntoThePast(t *testing.T) {
	t.Parallel()
	p := standby.New(t)
	primary, pool := tally.Pool(t, p.Primary.URL(), "test", 2), tally.Pool(t, p.StandbyURL(), "test", 2)
	of := func(pool *pgxpool.Pool) *projector.Projector {
		made, err := projector.New(projector.Config{Pool: pool, Projections: tally.Both()})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	if err := of(primary).Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	tally.Append(t, primary, "c", 1, 2)
	tally.Eventually(t, "the standby shows the events", tally.Holds(pool, `SELECT count(*) = 2 FROM tidemark.journal`))
	_, verify := of(pool).Verify(t.Context(), lookback.VerifyRequest{Projection: "entries", All: true})
	_, asOf := of(pool).AsOf(t.Context(), "entries", "c", 1)
	for what, err := range map[string]error{"verify": verify, "as-of": asOf} {
		if err == nil || !strings.Contains(err.Error(), "connect to the primary") || strings.Contains(err.Error(), "privilege") {
			t.Errorf("%s on a standby: %v", what, err)
		}
	}
}

// TestEventsThatAFailoverLostAreGhosts promotes a standby that lacks the primary's last commits
// after their events were published.
func TestEventsThatAFailoverLostAreGhosts(t *testing.T) {
	t.Parallel()
	p := standby.New(t)
	pool, sink := tally.Pool(t, p.BothURL(t), "test", 4), &memory.Sink{}
	relay, err := publisher.New(publisher.Config{
		Pool: tally.Pool(t, p.BothURL(t), "relay", publisher.Connections+1), LeaseTTL: 2 * time.Second,
		PollInterval: 100 * time.Millisecond,
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
	p.Forsake(t)
	tally.Append(t, pool, "torn", 2, 3)
	tally.Append(t, pool, "lost", 1, 2, 3)
	tally.Eventually(t, "what is lost is published", arrived(9))
	if err := p.Primary.Stop(t.Context(), devpg.Immediate); err != nil {
		t.Fatal(err)
	}
	p.Promote(t)
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

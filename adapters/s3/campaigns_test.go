package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/ndjson"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/program"
)

func value(t *testing.T, pool *pgxpool.Pool, sql string) (text string) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT (`+sql+`)::text`).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

// closed appends three events and the end to each of n campaigns.
func closed(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	for first := 1; first <= n; first += 500 {
		if _, err := pool.Exec(t.Context(), `SELECT tidemark.append('c' || n, '[{"type": "ordered", "payload": {"n": 0.10},
			"tags": ["a"]}, {"type": "ordered", "payload": {"ü": null}}, {"type": "ordered", "metadata": {"m": 1}},
			{"type": "campaign_closed"}]') FROM generate_series($1::int, $2) AS n`, first, min(n, first+499)); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	all      = `SELECT md5(string_agg(j::text, E'\n' ORDER BY campaign_id, seq)) || ' ' || count(*) FROM tidemark.journal j`
	archived = `SELECT count(DISTINCT campaign_id) FROM tidemark.journal WHERE event_version = 0`
)

func TestCampaignsComeBackFromABucketBitEqual(t *testing.T) {
	t.Parallel()
	pool, s := pgtest.New(t), newServer(t, httptest.NewTLSServer)
	store := open(t, s.url("shelf/events"))
	closed(t, pool, 7)
	before := value(t, pool, all)
	export := func() string {
		var text bytes.Buffer
		if _, err := ndjson.Export(t.Context(), archive.NewReader(store, 0).Reading(pool), &text,
			ndjson.ExportConfig{CampaignID: "c3"}); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	exported := export()
	request := archive.Request{
		Types: []string{"campaign_closed"}, ClosedFor: time.Microsecond, By: "anna", Reason: "a test",
	}
	if done, err := archive.Run(t.Context(), pool, store, request); err != nil || done.Campaigns != 7 {
		t.Fatalf("archived %+v, %v", done, err)
	}
	if n := value(t, pool, archived); n != "7" {
		t.Errorf("%s campaigns are archived", n)
	}
	if got := export(); got != exported {
		t.Errorf("an export was\n%s\nand is\n%s", exported, got)
	}
	if done, err := archive.Restore(t.Context(), pool, store, archive.RestoreRequest{All: true}); err != nil || done.Campaigns != 7 {
		t.Fatalf("restored %+v, %v", done, err)
	}
	if after := value(t, pool, all); after != before {
		t.Errorf("the journal was %s and is %s", before, after)
	}
}

func TestAServerThatIsAwayStopsTheRunAndCampaignsStay(t *testing.T) {
	t.Parallel()
	pool, s := pgtest.New(t), newServer(t, httptest.NewServer)
	store := open(t, s.url("shelf"))
	closed(t, pool, 1100) // three objects
	before := value(t, pool, all)
	var puts atomic.Int64
	s.before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && puts.Add(1) > 2 { // an object and its manifest
			_, _ = io.CopyN(io.Discard, r.Body, 100)
			panic(http.ErrAbortHandler)
		}
		return false
	})
	request := archive.Request{
		Types: []string{"campaign_closed"}, ClosedFor: time.Microsecond, By: "anna", Reason: "a test",
	}
	done, err := archive.Run(t.Context(), pool, store, request)
	if err == nil || !strings.Contains(err.Error(), "write s3://shelf/events-") || done.Campaigns != 500 {
		t.Errorf("archived %+v, %v", done, err)
	}
	if n := value(t, pool, archived); n != "500" {
		t.Errorf("%s campaigns are archived", n)
	}
	s.before(func(http.ResponseWriter, *http.Request) bool { return false })
	if done, err := archive.Run(t.Context(), pool, store, request); err != nil || done.Campaigns != 600 {
		t.Errorf("again: archived %+v, %v", done, err)
	}
	if done, err := archive.Restore(t.Context(), pool, store, archive.RestoreRequest{All: true}); err != nil || done.Campaigns != 1100 {
		t.Errorf("restored %+v, %v", done, err)
	}
	if after := value(t, pool, all); after != before {
		t.Errorf("the journal was %s and is %s", before, after)
	}
}

// programs runs the module's programs on a database and a bucket.
type programs struct {
	t   *testing.T
	env []string
}

func (p programs) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	p.t.Helper()
	path, err := program.Build(ctx, "adapters/s3/cmd/"+name)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), p.env...)
	return cmd
}

func (p programs) tidemark(args string) string {
	p.t.Helper()
	var log bytes.Buffer
	cmd := p.command(p.t.Context(), "tidemark", strings.Fields(args)...)
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("%s: %v: %s", args, err, log.String())
	}
	return string(out)
}

func TestTheProgramsFindTheBucket(t *testing.T) {
	t.Parallel()
	pool, s := pgtest.New(t), newServer(t, httptest.NewTLSServer)
	p := programs{t, []string{
		"TIDEMARK_DATABASE_URL=" + pool.Config().ConnString(), "TIDEMARK_ARCHIVE_URL=" + s.url("shelf/events"),
		"TIDEMARK_HTTP_ADDR=off", "TIDEMARK_PROJECTIONS_DIR=testdata",
	}}
	closed(t, pool, 7)
	before := value(t, pool, all)
	exported := p.tidemark("events export --campaign c3")
	p.tidemark("campaign archive --closed-for 1us --by-type campaign_closed --by anna --reason test --yes")
	if n := value(t, pool, archived); n != "7" {
		t.Errorf("%s campaigns are archived", n)
	}
	if got := p.tidemark("events export --campaign c3"); got != exported || !strings.Contains(got, "ordered") {
		t.Errorf("an export was\n%s\nand is\n%s", exported, got)
	}

	worker := p.command(t.Context(), "worker")
	var log bytes.Buffer
	worker.Stdout, worker.Stderr = &log, &log
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Wait() }()
	for deadline := time.Now().Add(time.Minute); value(t, pool, `SELECT to_regclass('tidemark_views.orders') IS NOT NULL`) !=
		"true" || value(t, pool, `SELECT coalesce(sum(events), 0) FROM tidemark_views.orders`) != "28"; {
		select {
		case err := <-ended:
			t.Fatalf("the worker ended: %v: %s", err, log.String())
		case <-time.After(20 * time.Millisecond):
			if time.Now().After(deadline) {
				t.Fatal("a new projection has not read the archived campaigns")
			}
		}
	}
	if got := p.tidemark("projection verify orders"); !strings.Contains(got, "orders") {
		t.Errorf("verify says %s", got)
	}
	if err := errors.Join(worker.Process.Signal(os.Interrupt), <-ended); err != nil {
		t.Errorf("the worker ended: %v: %s", err, log.String())
	}
	p.tidemark("campaign restore --all --by anna --reason test")
	if after := value(t, pool, all); after != before {
		t.Errorf("the journal was %s and is %s", before, after)
	}
}

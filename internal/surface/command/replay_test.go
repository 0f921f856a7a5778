package command

import (
	"bufio"
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// counter is a projection that counts the events of each campaign. It fails on events for which
// refuse returns an error.
func counter(refuse func(event.Event) error) projection.Projection {
	return projection.Document[int]{
		Name: "counted", Version: 1,
		Fold: func(n *int, e event.Event) error {
			if err := refuse(e); err != nil {
				return err
			}
			*n++
			return nil
		},
	}
}

func accept(event.Event) error { return nil }

// withCounts returns a database where the projection counted has applied three events of oak and
// two of elm, and where its rows were edited since.
func withCounts(t *testing.T) (url string, pool *pgxpool.Pool) {
	t.Helper()
	url = fresh(t)
	pool = poolOf(t, url)
	work(t, pool, counter(accept)) // registers the projection
	change(t, url, `SELECT tidemark.append('oak', '[{"type": "grew"}, {"type": "grew"}, {"type": "fell"}]'),
		tidemark.append('elm', '[{"type": "grew"}, {"type": "grew"}]')`)
	work(t, pool, counter(accept))
	change(t, url, "UPDATE counted SET doc = '99'")
	return url, pool
}

// work applies all events.
func work(t *testing.T, pool *pgxpool.Pool, code projection.Projection) {
	t.Helper()
	p, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{code}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// worker runs a worker until the test ends.
func worker(t *testing.T, pool *pgxpool.Pool, code projection.Projection) {
	t.Helper()
	p, err := projector.New(projector.Config{
		Pool: pool, Projections: []projection.Projection{code},
		PollInterval: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func counts(t *testing.T, url string) []string {
	t.Helper()
	return lines(t, url, "SELECT campaign_id || ' ' || doc::text FROM counted ORDER BY campaign_id")
}

func TestAReplayIsFiledAndLeftToTheWorkers(t *testing.T) {
	t.Parallel()
	url, pool := withCounts(t)
	operate(t, url)
	tests := []struct {
		golden, args string
		terminal     bool
		filed        []string
		counts       []string
	}{
		{"replay-dry", "group replay default --dry-run", true, nil, []string{"elm 99", "oak 99"}},
		{"replay-dry-json", "campaign replay oak --dry-run --json --by bob", false, nil, []string{"elm 99", "oak 99"}},
		{
			"replay", "campaign replay oak --projection counted --by bob --reason edited", true,
			[]string{"oak counted 1 true"},
			[]string{"elm 99", "oak 3"},
		},
		{
			"replay-from-json", "campaign replay oak --from 3 --json --by bob", false,
			[]string{"oak counted 3 false"},
			[]string{"elm 99", "oak 4"},
		},
		{
			"replay-all-from-json", "group replay default --from 3 --json --by bob", false,
			[]string{"oak counted 3 false"},
			[]string{"elm 99", "oak 5"},
		},
		{
			"replay-all-json", "group replay default --json --by bob", false,
			[]string{"elm counted 1 true", "oak counted 1 true"},
			[]string{"elm 2", "oak 3"},
		},
	}
	for _, tt := range tests { // not parallel: one after the other
		t.Run(tt.golden, func(t *testing.T) {
			got := execute(t, url, tt.terminal, tt.args)
			if got.code != cli.ExitOK {
				t.Fatalf("exit code %d: %s", got.code, got.err)
			}
			assertGolden(t, tt.golden, numberless(timeless(got.out)+"--- stderr\n"+got.err))
			await(t, pool, `SELECT NOT EXISTS (SELECT FROM tidemark.operations WHERE state = 'running')`)
			filed := lines(t, url,
				"SELECT concat_ws(' ', campaign_id, projection, next_seq, reset::text) FROM tidemark.failed ORDER BY campaign_id")
			if !slices.Equal(filed, tt.filed) {
				t.Errorf("filed %q, want %q", filed, tt.filed)
			}
			work(t, pool, counter(accept))
			if got := counts(t, url); !slices.Equal(got, tt.counts) {
				t.Errorf("the rows are %q, want %q", got, tt.counts)
			}
		})
	}
}

func TestAReplayIsWaitedFor(t *testing.T) {
	t.Parallel()
	t.Run("until all is done", func(t *testing.T) {
		t.Parallel()
		url, pool := withCounts(t)
		worker(t, pool, counter(accept))
		operate(t, url)
		got := requireRun(t, url, "group replay default --wait --json", cli.ExitOK, "2 campaigns replayed")
		if o := decoded[admin.Operation](t, got.out); o.Done != 2 || o.State != "done" {
			t.Errorf("got %q", got.out)
		}
		if rows := counts(t, url); !slices.Equal(rows, []string{"elm 2", "oak 3"}) {
			t.Errorf("the rows are %q", rows)
		}
	})
	t.Run("and what died on the way makes it partial", func(t *testing.T) {
		t.Parallel()
		url, pool := withCounts(t)
		worker(t, pool, counter(func(e event.Event) error {
			if e.Type == "fell" {
				return projection.Permanent(errors.New("trees do not fall"))
			}
			return nil
		}))
		got := requireRun(t, url, "campaign replay oak elm --wait --json", cli.ExitPartial, "1 campaign became dead")
		if !strings.Contains(got.err, "try: tidemark failed list --status dead --group default\n") {
			t.Errorf("got %q, %q", got.out, got.err)
		}
	})
	t.Run("until it is interrupted, which does not stop the replay", func(t *testing.T) {
		t.Parallel()
		url, pool := withCounts(t)
		command := program(t, url, "campaign", "replay", "oak", "--wait")
		pipe, err := command.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		errs := bufio.NewScanner(pipe)
		if !errs.Scan() ||
			errs.Text()+"\n" != idle {
			t.Errorf("it begins with %q", errs.Text())
		}
		if err := command.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		var said []string
		for errs.Scan() {
			said = append(said, errs.Text())
		}
		_ = command.Wait()
		want := []string{
			"tidemark: stopped waiting; the replay continues",
			"try: tidemark lag",
		}
		if code := command.ProcessState.ExitCode(); code != cli.ExitPartial || !slices.Equal(said, want) {
			t.Errorf("exit code %d, said %q", code, said)
		}
		work(t, pool, counter(accept))
		if rows := counts(t, url); !slices.Equal(rows, []string{"elm 99", "oak 3"}) {
			t.Errorf("the rows are %q", rows)
		}
	})
}

func TestAReplayThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	url, _ := withCounts(t)
	const nowhere = "postgres://nobody@127.0.0.1:1/none"
	for _, tt := range []struct {
		url, args string
		code      int
		says      string
	}{
		{nowhere, "campaign replay", cli.ExitUsage, "replay what? Name CAMPAIGN..."},
		{nowhere, "campaign replay oak --from 0", cli.ExitUsage, `--from "0"`},
		{nowhere, "campaign replay oak", cli.ExitUnavailable, "database unavailable"},
		{url, "campaign replay yew", cli.ExitFailed, "yew"},
		{url, "campaign replay oak --projection count", cli.ExitFailed, "try: tidemark projection list"},
	} {
		requireRun(t, tt.url, tt.args, tt.code, tt.says)
	}
	if filed := lines(t, url, "SELECT campaign_id FROM tidemark.failed"); len(filed) > 0 {
		t.Errorf("filed %q", filed)
	}
}

func TestAReplayOfMuchIsConfirmedFirst(t *testing.T) {
	t.Parallel()
	url, pool := withCounts(t)
	change(t, url, `SELECT tidemark.append('c' || i, '[{"type": "grew"}]') FROM generate_series(1, 120) AS i`)
	work(t, pool, counter(accept))
	requireRun(t, url, "group replay default", cli.ExitDeclined, "this would replay 122 campaigns and needs a confirmation")
	if filed := lines(t, url, "SELECT campaign_id FROM tidemark.failed"); len(filed) > 0 {
		t.Errorf("filed %q", filed)
	}
	requireRun(t, url, "group replay default --yes", cli.ExitOK, "a worker replays group default")
}

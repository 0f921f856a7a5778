package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/program"
)

func TestRunAppliesEverythingOnceThoughAWorkerIsKilled(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for _, when := range []string{"on a new database", "again, on the data of the first run"} {
		var out bytes.Buffer
		result, err := Run(t.Context(), config(t, url, &out))
		if err != nil {
			t.Fatalf("%s: %v\n%s", when, err, &out)
		}
		if !result.Good() {
			t.Errorf("%s: %s\n%s", when, result, &out)
		}
		for _, line := range []string{
			"3 workers are up", "killed worker 2", "lag ", "worker 2: killed", "campaigns ",
			"rows, 0 differ",
		} {
			if !strings.Contains(out.String(), line) {
				t.Errorf("%s: the view does not say %q:\n%s", when, line, &out)
			}
		}
	}
}

func TestRunStopsItsWorkersWhenItIsCancelled(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := config(t, url, &cancelAt{text: "appending", cancel: cancel})
	c.Length = time.Minute
	if _, err := Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled run ended with %v", err)
	}
	pool, err := pgxpool.New(t.Context(), pgtest.UTF8(url))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	workers, err := lease.Workers(t.Context(), pool) // a worker that shuts down cleanly deletes its row
	if err != nil {
		t.Fatal(err)
	}
	if len(workers) > 0 {
		t.Errorf("these workers have not stopped in order: %+v", workers)
	}
}

func TestRunRefusesAConfigurationAndNamesEveryMistake(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), Config{Rate: -1, Out: io.Discard})
	for _, mistake := range []string{"length", "rate"} {
		if err == nil || !strings.Contains(err.Error(), mistake) {
			t.Errorf("the error does not speak of the %s: %v", mistake, err)
		}
	}
}

func TestResultIsGoodOnlyIfAllWasAppliedOnceAndRightly(t *testing.T) {
	t.Parallel()
	good := Result{Appended: 7, Applied: 7}
	if !good.Good() || good.String() != "demo: appended=7 applied=7 lag=0 duplicates=0 mismatches=0" {
		t.Errorf("%s: good is %t", good, good.Good())
	}
	for _, bad := range []Result{
		{},
		{Appended: 7, Applied: 6},
		{Appended: 7, Applied: 8},
		{Appended: 7, Applied: 7, Lag: 1},
		{Appended: 7, Applied: 7, Duplicates: 1},
		{Appended: 7, Applied: 7, Mismatches: 1},
	} {
		if bad.Good() {
			t.Errorf("%s counts as good", bad)
		}
	}
}

func config(t *testing.T, url string, out io.Writer) Config {
	t.Helper()
	path, err := program.Build(t.Context(), "cmd/tidemark")
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Program:     path,
		DatabaseURL: url, Length: 3 * time.Second, Rate: 300, Out: out, Logger: slog.New(slog.DiscardHandler),
	}
}

// cancelAt calls cancel when the text is written.
type cancelAt struct {
	text   string
	cancel context.CancelFunc
}

func (c *cancelAt) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.text)) {
		c.cancel()
	}
	return len(p), nil
}

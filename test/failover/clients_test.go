package failover_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/web"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/program"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// client has the ids of the events that a stream or an export has told it.
type client struct{ events []uuid.UUID }

func (c *client) take(t *testing.T, line []byte) {
	t.Helper()
	var e struct{ ID uuid.UUID }
	if err := json.Unmarshal(line, &e); err != nil || e.ID == uuid.Nil {
		t.Fatalf("%v: %s", err, line)
	}
	c.events = append(c.events, e.ID)
}

// positionOf reads the position from an id that the database has made.
func positionOf(id uuid.UUID) int64 { return int64(binary.BigEndian.Uint64(id[8:]) & (1<<48 - 1)) }

// back drops what lies after a cursor.
func (c *client) back(t *testing.T, cursor string) {
	t.Helper()
	at, err := event.ParseCursor(cursor)
	if err != nil {
		t.Fatal(err)
	}
	c.events = slices.DeleteFunc(c.events, func(id uuid.UUID) bool { return positionOf(id) > at.Position })
}

// has compares the events with those of the database.
func (c *client) has(t *testing.T, who string, pool *pgxpool.Pool) {
	t.Helper()
	if want := inDatabase(t, pool); !slices.Equal(c.events, want) {
		t.Errorf("%s has %v, the database %v", who, c.events, want)
	}
}

func inDatabase(t *testing.T, pool *pgxpool.Pool) []uuid.UUID {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT event_id FROM tidemark.journal ORDER BY position`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// exporter runs tidemark events export.
type exporter struct {
	client
	program, url string
}

var cursorTold = regexp.MustCompile(`--after (\d+@[0-9a-f]+)`)

// export adds the events after a cursor. It returns the cursor that the program names, and its exit code.
func (e *exporter) export(t *testing.T, after string) (cursor string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), e.program, "events", "export", "--after", after)
	cmd.Env = append(os.Environ(), "TIDEMARK_DATABASE_URL="+e.url)
	var out, told bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &told
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(out.Bytes()) {
		e.take(t, line)
	}
	last := cursorTold.FindAllStringSubmatch(told.String(), -1)
	if len(last) == 0 {
		t.Fatalf("an export after %s ends with %d and names no cursor of a history: %s", after, cmd.ProcessState.ExitCode(),
			told.String())
	}
	return last[len(last)-1][1], cmd.ProcessState.ExitCode()
}

// follower follows a stream. Where it breaks, the follower opens it again.
type follower struct {
	client
	open   func(after string) io.Reader
	lines  *bufio.Scanner
	cursor string
	resets int
}

// until reads on until the client has an event.
func (f *follower) until(t *testing.T, last uuid.UUID) {
	t.Helper()
	event := ""
	for n := len(f.events); n == 0 || f.events[n-1] != last; n = len(f.events) {
		if f.lines == nil || !f.lines.Scan() {
			f.lines = bufio.NewScanner(f.open(f.cursor))
			continue
		}
		switch name, value, _ := strings.Cut(f.lines.Text(), ": "); name {
		case "id":
			f.cursor = value
		case "event":
			event = value
		case "data":
			switch event {
			case "reset":
				f.resets++
				f.back(t, f.cursor)
			case "error": // the stream ends
			default:
				f.take(t, []byte(value))
			}
			event = ""
		}
	}
}

// serve serves the API for a pool, and returns a function that opens streams.
func serve(t *testing.T, pool *pgxpool.Pool) (open func(after string) io.Reader) {
	t.Helper()
	acts, err := admin.New(admin.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	server, err := web.New(t.Context(), web.Config{Addr: "127.0.0.1:0", Pool: pool, Acts: acts})
	if err != nil {
		t.Fatal(err)
	}
	token, err := auth.Create(t.Context(), pool, "viewer", auth.Viewer, 0, auth.Identity{Name: "the test"}, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		if stop(); <-done != nil {
			t.Error("the listener ended with an error")
		}
	})
	return func(after string) (body io.Reader) {
		t.Helper()
		tally.Eventually(t, "the stream is open", func(context.Context) (bool, error) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				"http://"+server.Addr().String()+"/api/v1/events/stream", nil)
			if err != nil {
				return false, err
			}
			request.Header.Set("Authorization", "Bearer "+token)
			request.Header.Set("Last-Event-ID", after)
			response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
			if err != nil {
				return false, err
			}
			t.Cleanup(func() { _ = response.Body.Close() })
			body = response.Body
			return response.StatusCode == http.StatusOK, nil
		})
		return body
	}
}

// TestClientsGoOnWithWhatTheDatabaseHas promotes a standby that lacks events which a stream, exports and a
// decision have read. No worker runs: an export begins the history.
func TestClientsGoOnWithWhatTheDatabaseHas(t *testing.T) {
	t.Parallel()
	tidemark, err := program.Build(t.Context(), "cmd/tidemark")
	if err != nil {
		t.Fatal(err)
	}
	l := promotion(t)
	pool := tally.Pool(t, l.url, "test", 4)
	last := func() uuid.UUID { all := inDatabase(t, pool); return all[len(all)-1] }
	decide := func() journal.Condition {
		_, c, err := journal.Decide(t.Context(), pool, event.Types("decided"),
			func(*int, event.Event) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	appendIf := func(c journal.Condition) error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendIf(t.Context(), tx, []event.Event{{CampaignID: "mine", Type: "decided"}}, c)
			return err
		})
	}
	add(t, pool, "kept", 3, 2)
	exports := &exporter{program: tidemark, url: l.url}
	kept, code := exports.export(t, "0")
	if code != 0 {
		t.Fatalf("the first export ends with %d", code)
	}
	early := &exporter{client{slices.Clone(exports.events)}, tidemark, l.url}
	add(t, pool, "kept", 1, 0) // the standby acknowledges it, and so has what was noted before
	open := serve(t, tally.Pool(t, l.url, "api", 8))
	stream := &follower{open: open}
	stream.until(t, last())
	l.forget(t)
	answers(t, pool)
	add(t, pool, "lost", 3, 3)
	stream.until(t, last())
	lost, code := exports.export(t, kept)
	exports.has(t, "the export of before", pool)
	if code != 0 {
		t.Fatalf("the second export ends with %d", code)
	}
	decided := decide()

	l.lose(t)
	answers(t, pool)
	add(t, pool, "new", 4, 3)
	if err := appendIf(journal.Condition{FailIfMatch: event.Types("decided")}); err != nil {
		t.Fatal(err)
	}
	if positionOf(last()) <= decided.After {
		t.Fatalf("the journal ends at %d, before what the lost one had", positionOf(last()))
	}
	if err := appendIf(decided); !errors.Is(err, journal.ErrInvalidCondition) {
		t.Errorf("a decision of the lost history: %v", err)
	}
	stream.until(t, last())
	if stream.has(t, "the open stream", pool); stream.resets != 1 {
		t.Errorf("the open stream has %d resets", stream.resets)
	}
	again := &follower{client: client{slices.Clone(exports.events)}, open: open, cursor: lost}
	again.until(t, last())
	if again.has(t, "a stream that comes back", pool); again.resets != 1 {
		t.Errorf("a stream that comes back has %d resets", again.resets)
	}
	reset, code := exports.export(t, lost)
	if code != cli.ExitReset {
		t.Errorf("an export after a cursor of a lost history ends with %d", code)
	}
	exports.back(t, reset)
	if _, code = exports.export(t, reset); code != 0 {
		t.Errorf("the export that was named ends with %d", code)
	}
	exports.has(t, "the exports", pool)
	if _, code = early.export(t, kept); code != 0 {
		t.Errorf("an export after a cursor that both histories share ends with %d", code)
	}
	early.has(t, "the export of what both share", pool)
}

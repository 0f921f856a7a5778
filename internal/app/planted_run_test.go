package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/surface/api"
)

// plantedRun is a worker with its whole log and the responses of its admin listener.
type plantedRun struct {
	pool   *pgxpool.Pool
	log    *logged
	base   string
	tokens map[auth.Role]string
	seen   map[string]bool
}

// logged keeps what is written to it.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func plantedWorker(t *testing.T, pool *pgxpool.Pool, opts Options, args ...string) *plantedRun {
	t.Helper()
	flags := pflag.NewFlagSet("worker", pflag.ContinueOnError)
	settings, set := config.NewWorker(flags)
	err := flags.Parse(append([]string{
		"--database-url", pool.Config().ConnString(), "--http-addr", "off", "--poll-interval", "50ms",
		"--publish-poll-interval", "50ms", "--admin-addr", "127.0.0.1:0", "--admin-payloads", "admin",
		"--admin-statement-timeout", "1m",
	}, args...))
	if err := errors.Join(err, set.Finish()); err != nil {
		t.Fatal(err)
	}
	w := &plantedRun{pool: pool, log: &logged{}, tokens: map[auth.Role]string{}, seen: map[string]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		handler := slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})
		done <- Run(ctx, *settings, opts, slog.New(handler))
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the worker ended with: %v", err)
		}
	})
	for _, role := range []auth.Role{auth.Viewer, auth.Operator, auth.Admin} {
		by := auth.Identity{Name: "the test"}
		if w.tokens[role], err = auth.Create(t.Context(), pool, role.String(), role, 0, by, ""); err != nil {
			t.Fatal(err)
		}
	}
	soon(t, "the admin listener", func() bool {
		m := regexp.MustCompile(`"admin listener" address=(\S+)`).FindStringSubmatch(w.log.String())
		if m != nil {
			w.base = "http://" + m[1]
		}
		return m != nil
	})
	return w
}

func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(4 * time.Minute); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in four minutes: %s", what)
		}
	}
}

func (w *plantedRun) until(t *testing.T, sql string, args ...any) {
	t.Helper()
	defer func() {
		if t.Failed() {
			_ = os.WriteFile("/tmp/web-planted.log", []byte(w.log.String()), 0o600)
			var state string
			_ = w.pool.QueryRow(context.Background(),
				`SELECT string_agg(d::text, E'\n') FROM tidemark.failed d WHERE status = 'failed'`).Scan(&state)
			t.Log(state)
		}
	}()
	soon(t, sql, func() (is bool) {
		if err := w.pool.QueryRow(t.Context(), sql, args...).Scan(&is); err != nil {
			t.Fatal(err)
		}
		return is
	})
}

func (w *plantedRun) send(t *testing.T, role auth.Role, method, path, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, w.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.tokens[role])
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer) + fmt.Sprint(response.Header)
}

// get reads a path as a role. Unless the role is admin, the value must be absent.
func (w *plantedRun) get(t *testing.T, role auth.Role, path string) string {
	t.Helper()
	answer := w.send(t, role, http.MethodGet, path, "")
	if role != auth.Admin {
		absent(t, role.String()+" of GET "+path, answer)
	}
	return answer
}

// post acts as an admin. The request must be understood, and the value absent from the response.
func (w *plantedRun) post(t *testing.T, path, with string) {
	t.Helper()
	answer := w.send(t, auth.Admin, http.MethodPost, path, `{"reason": "a test", "with": `+with+`}`)
	absent(t, "POST "+path, answer)
	if strings.Contains(answer, `"status":404`) || strings.Contains(answer, `"status":400`) {
		t.Errorf("POST %s: %s", path, answer)
	}
}

// absent fails the test if a text contains the value, in any case, or its number.
func absent(t *testing.T, what, text string) {
	t.Helper()
	for _, value := range []string{planted, "48151623"} {
		if i := strings.Index(strings.ToLower(text), value); i >= 0 {
			t.Errorf("%s tells the value: …%s…", what, text[max(0, i-300):min(len(text), i+60)])
			return
		}
	}
}

// everywhere checks that the value is absent from every table that is not meant for it, from the
// log, and from every page and response.
func (w *plantedRun) everywhere(t *testing.T) {
	t.Helper()
	rows, err := w.pool.Query(t.Context(), `SELECT c.relname::text FROM pg_catalog.pg_class c
		WHERE c.relnamespace = 'tidemark'::regnamespace AND c.relkind IN ('r', 'p')
		AND c.relname NOT IN ('journal', 'event_tags')`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 15 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		rows, err := w.pool.Query(t.Context(), "SELECT t::text FROM "+pgx.Identifier{"tidemark", table}.Sanitize()+" t")
		if err != nil {
			t.Fatal(err)
		}
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			absent(t, "table "+table, text)
		}
	}
	for _, role := range []auth.Role{auth.Viewer, auth.Operator} {
		w.crawl(t, role)
		w.calls(t, role)
	}
	for line := range strings.Lines(w.log.String()) {
		absent(t, "the log", line)
	}
}

// crawl reads every linked page, up to a limit for each kind.
func (w *plantedRun) crawl(t *testing.T, role auth.Role) {
	t.Helper()
	links := regexp.MustCompile(`(?:href|action|src)="(/[^"]*)"`)
	queue, seen, of := []string{"/", "/settings", "/audit"}, map[string]bool{}, map[string]int{}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		place, _, _ := strings.Cut(path, "?")
		elsewhere := strings.HasPrefix(place, "/static") || strings.HasPrefix(place, "/events") || place == "/logout"
		if elsewhere || seen[path] || of[place] > 25 {
			continue
		}
		of[place]++
		seen[path] = true
		for _, link := range links.FindAllStringSubmatch(w.get(t, role, path), -1) {
			queue = append(queue, html.UnescapeString(link[1]))
		}
	}
	if len(of) < 12 {
		t.Errorf("only %d kinds of pages were found: %v", len(of), of)
	}
}

// calls reads every route of the API for every campaign and publisher.
func (w *plantedRun) calls(t *testing.T, role auth.Role) {
	t.Helper()
	acts, err := admin.New(admin.Config{Pool: w.pool})
	if err != nil {
		t.Fatal(err)
	}
	a, err := api.New(api.Config{Pool: w.pool, Acts: acts, Failed: func(http.ResponseWriter, *http.Request, error) {}})
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range a.Routes() {
		if route.Method != http.MethodGet || route.Streams {
			continue
		}
		for _, campaign := range []string{"c-raised", "c-plain", "c-folded", "c-cast"} {
			for _, name := range []string{"filed", "handled", "folded"} {
				path := strings.NewReplacer("{projection}", name, "{campaign}", campaign, "{seq}", "1", "{id}", "1",
					"{topic}", "all", "{publisher}", "hook422-cut", "{group}", "default", "{owner}", "x", "{name}", "x").
					Replace(route.Pattern)
				of := "?projection=" + name
				for _, query := range []string{"?limit=100", of, of + "&seq=1", of + "&from=0&to=1", "?group=default"} {
					if key := role.String() + path + query; !w.seen[key] {
						w.seen[key] = true
						w.get(t, role, path+query)
					}
				}
			}
		}
	}
}

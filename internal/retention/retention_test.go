package retention_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/retention"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// archived returns the archived campaigns.
func archived(t *testing.T, pool *pgxpool.Pool) (ids string) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(campaign_id, ' ' ORDER BY campaign_id), '')
		FROM tidemark.journal WHERE event_version = 0`).Scan(&ids); err != nil {
		t.Fatal(err)
	}
	return ids
}

func runner(t *testing.T, pool *pgxpool.Pool, owner string, policies ...retention.Policy) *retention.Runner {
	t.Helper()
	store, err := archive.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &retention.Runner{Pool: pool, Store: store, Policies: policies, Owner: owner, Logger: slog.New(slog.DiscardHandler)}
}

func step(t *testing.T, r *retention.Runner) {
	t.Helper()
	if err := r.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
}

var shut = retention.Policy{ //nolint:gochecknoglobals // a constant
	Name: "shut", ClosedFor: time.Microsecond, Types: []string{"closed"}, Every: time.Hour, Rate: 10_000,
}

func TestAPolicyArchivesClosedCampaignsWhenItIsDue(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	closeOne := func(id string) {
		exec(t, pool, `SELECT tidemark.append($1, '[{"type": "opened"}, {"type": "closed"}]')`, id)
	}
	closeOne("oak")
	exec(t, pool, `SELECT tidemark.append('elm', '[{"type": "opened"}]')`)
	later := retention.Policy{Name: "later", ClosedFor: time.Hour, Types: []string{"opened"}, Every: time.Hour, Rate: 1}
	r := runner(t, pool, "a", shut, later)
	exec(t, pool, `INSERT INTO tidemark.erasures (request, campaign_id, actor, reason) VALUES (sha256(''), 'gone', 'anna', 'killed')`)
	step(t, r)
	if ids := archived(t, pool); ids != "" {
		t.Errorf("while an erasure has not ended, archived %q", ids)
	}
	exec(t, pool, `UPDATE tidemark.erasures SET ended_at = now()`)
	exec(t, pool, `UPDATE tidemark.retention SET began_at = began_at - interval '1 hour'`)
	step(t, r)
	if ids := archived(t, pool); ids != "oak" {
		t.Errorf("archived %q, want oak", ids)
	}

	closeOne("ash")
	step(t, r)
	if ids := archived(t, pool); ids != "oak" {
		t.Errorf("before it is due again, archived %q", ids)
	}
	exec(t, pool, `UPDATE tidemark.retention SET began_at = began_at - interval '1 hour'`)
	step(t, runner(t, pool, "b", shut))
	if ids := archived(t, pool); ids != "oak" {
		t.Errorf("another process has the duty, archived %q", ids)
	}
	exec(t, pool, `UPDATE tidemark.duties SET expires_at = clock_timestamp()`)
	exec(t, pool, `SELECT tidemark.append_at('yew', clock_timestamp() + interval '1 hour', '[{"type": "opened"}]')`)
	closeOne("yew")
	step(t, runner(t, pool, "b", shut))
	if ids := archived(t, pool); ids != "ash oak" {
		t.Errorf("when it is due again, archived %q, want ash and oak", ids)
	}
	known, err := retention.List(t.Context(), pool, "", 10)
	if err != nil || len(known) != 1 {
		t.Fatalf("policies %v, %v; want the one that the file still has", known, err)
	}
	if k := known[0]; k.Policy != "shut" || k.BeganAt == nil || k.EndedAt == nil || k.Campaigns != 1 || k.Events != 2 ||
		k.LeftOut != 1 || fmt.Sprint(k.Left) != "[{yew it has a scheduled append}]" || k.Error != "" {
		t.Errorf("its last run is %+v", k)
	}
}

func TestAPolicyThatCannotWriteSaysSo(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `SELECT tidemark.append('oak', '[{"type": "opened"}, {"type": "closed"}]')`)
	folder := t.TempDir()
	store, err := archive.NewFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r := runner(t, pool, "a", shut)
	r.Store = store
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	step(t, r)
	known, err := retention.List(t.Context(), pool, "", 10)
	if err != nil || len(known) != 1 || !strings.Contains(known[0].Error, "no such file") || archived(t, pool) != "" {
		t.Errorf("policies %+v, %v, archived %q", known, err, archived(t, pool))
	}
}

// TestAPolicyStopsWhenItsDutyIsLost has another process take the duty with the first of two objects.
func TestAPolicyStopsWhenItsDutyIsLost(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `SELECT tidemark.append('c' || n, '[{"type": "opened"}, {"type": "closed"}]')
		FROM generate_series(1, 600) AS n`)
	exec(t, pool, `CREATE FUNCTION take() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		UPDATE tidemark.duties SET owner = 'b'; RETURN NULL; END $$;
		CREATE TRIGGER take AFTER INSERT ON tidemark.archives EXECUTE FUNCTION take()`)
	step(t, runner(t, pool, "a", shut))
	known, err := retention.List(t.Context(), pool, "", 10)
	if err != nil || len(known) != 1 || known[0].Campaigns != 500 || known[0].Error != "another process has the duty" {
		t.Errorf("policies %+v, %v; want 500 campaigns, and why it has stopped", known, err)
	}
}

func TestAFileOfPoliciesIsReadOrItsMistakesAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"all settings": {
			"policies:\n  tables:\n    closed_for: 90d\n    by_type: [closed, lost]\n    every: 12h\n    rate: 500",
			"[{tables 2160h0m0s [closed lost] 12h0m0s 500}] 0s",
		},
		"defaults":         {"policies: {t: {closed_for: 1h, by_type: [closed]}}", "[{t 1h0m0s [closed] 1h0m0s 5000}] 0s"},
		"restores alone":   {"restore: {keep: 1d}", "[] 24h0m0s"},
		"restores too":     {"restore: {keep: 12h}\npolicies: {t: {closed_for: 1h, by_type: [a]}}", "[{t 1h0m0s [a] 1h0m0s 5000}] 12h0m0s"},
		"no keep":          {"restore: {}", "restore: keep is 0s, the least is 1m0s"},
		"nothing":          {"", "it has no policies"},
		"an unknown field": {"policies: {t: {closed: 1h}}", `unknown field "closed"`},
		"no duration":      {"policies: {t: {by_type: [closed]}}", `policy "t": closed_for is missing`},
		"a bad duration":   {"policies: {t: {closed_for: soon, by_type: [closed]}}", `duration "soon"`},
		"no type":          {"policies: {t: {closed_for: 1h}}", `policy "t": by_type is empty`},
		"too often":        {"policies: {t: {closed_for: 1h, by_type: [closed], every: 1s}}", "every is 1s, the least is 1m0s"},
		"a negative rate":  {"policies: {t: {closed_for: 1h, by_type: [closed], rate: -1}}", "rate is -1"},
		"the same twice":   {"policies:\n  t: {closed_for: 1h, by_type: [a]}\n  t: {closed_for: 2h, by_type: [a]}", "already defined"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "retention.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			policies, keep, err := retention.Load(path)
			if got := fmt.Sprint(policies, keep); err == nil && got != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("read %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

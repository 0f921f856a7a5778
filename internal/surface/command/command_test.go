package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// asProgram makes the test binary behave as tidemark itself, for tests that kill it.
const asProgram = "TIDEMARK_TEST_AS_PROGRAM"

// stock returns the options of the stock program.
func stock() Options { return Options{Name: "tidemark"} }

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(stock()))
	}
	pgtest.Main(m)
}

func TestCommandsPrintWhatTheGoldenFilesSay(t *testing.T) {
	t.Parallel()
	for _, session := range pgtest.Sessions() {
		t.Run(session.Name, func(t *testing.T) {
			t.Parallel()
			printsGolden(t, session)
		})
	}
}

func printsGolden(t *testing.T, session pgtest.Session) {
	t.Helper()
	database := func(files ...string) string {
		url := share(t, session.Open(t, pgtest.URL(t)))
		fill(t, url, files...)
		return url
	}
	behind, broken, paused, live, fresh := database("behind.sql"), database("failed.sql"),
		database("failed.sql", "paused.sql"), database("failed.sql", "live.sql"), database()
	tests := []struct {
		golden, url string
		terminal    bool
		args        string
	}{
		{"report-terminal", behind, true, "outbox report"},
		{"report-pipe", behind, false, "outbox report"},
		{"report-json", behind, false, "outbox report --json"},
		{"report-json-empty", fresh, false, "outbox report --json"},
		{"list-terminal", behind, true, "outbox list"},
		{"list-pipe", behind, false, "outbox list"},
		{"list-json", behind, false, "outbox list --json --status failed"},
		{"list-json-empty", fresh, false, "outbox list --json"},
		{"list-limit", behind, true, "outbox list --limit 1 --status pending"},
		{"list-campaign", behind, true, "outbox list --campaign oak"},
		{"report-entries-terminal", behind, true, "outbox report --status failed"},
		{"report-entries-json", behind, false, "outbox report --status failed --limit 1 --json"},
		{"report-entries-json-empty", fresh, false, "outbox report --limit 1 --json"},
		{"lag-terminal", behind, true, "lag"},
		{"lag-pipe", behind, false, "lag"},
		{"lag-json", behind, false, "lag --json"},
		{"lag-json-empty", fresh, false, "lag --json"},
		{"status-terminal", live, true, "status"},
		{"status-pipe", behind, false, "status"},
		{"status-empty", fresh, true, "status"},
		{"help", fresh, true, "--help"},
		{"failed-list-terminal", broken, true, "failed list"},
		{"failed-list-pipe", broken, false, "failed list --status dead"},
		{"failed-list-json", broken, false, "failed list --json"},
		{"failed-list-json-empty", fresh, false, "failed list --json"},
		{"failed-show-terminal", broken, true, "failed show scores oak"},
		{"failed-show-stack", broken, false, "failed show invites ash%09"},
		{"failed-show-catching-up", broken, true, "failed show sessions elm"},
		{"failed-show-json", broken, false, "failed show scores oak --json"},
		{"failed-stats-terminal", broken, true, "failed stats"},
		{"failed-stats-pipe", broken, false, "failed stats --projection scores"},
		{"failed-stats-json", broken, false, "failed stats --json"},
		{"failed-stats-json-empty", fresh, false, "failed stats --json"},
		{"failed-log-terminal", broken, true, "failed log"},
		{"failed-log-pipe", broken, false, "failed log --campaign oak --act requeued"},
		{"failed-log-json", broken, false, "failed log --json"},
		{"failed-log-json-empty", fresh, false, "failed log --json"},
		{"report-paused", paused, true, "outbox report"},
		{"group-list-terminal", broken, true, "group list"},
		{"group-list-paused", paused, true, "group list"},
		{"group-list-pipe", paused, false, "group list"},
		{"group-list-json", paused, false, "group list --json"},
		{"group-list-json-empty", fresh, false, "group list --json"},
		{"projection-list-terminal", paused, true, "projection list"},
		{"projection-list-pipe", broken, false, "projection list"},
		{"projection-list-json", paused, false, "projection list --json"},
		{"projection-list-json-empty", fresh, false, "projection list --json"},
		{"failed-resolutions-terminal", broken, true, "failed resolutions --projection scores"},
		{"failed-resolutions-json", broken, false, "failed resolutions --campaign oak --json"},
		{"campaign-show-terminal", broken, true, "campaign show oak"},
		{"campaign-show-paused", paused, true, "campaign show elm"},
		{"campaign-show-pipe", broken, false, "campaign show ash%09"},
		{"campaign-show-json", paused, false, "campaign show elm --json"},
		{"gaps-detect-json", paused, false, "gaps detect --json"},
		{"gaps-detect-json-empty", fresh, false, "gaps detect --json"},
	}
	for _, tt := range tests {
		t.Run(tt.golden, func(t *testing.T) {
			t.Parallel()
			if tt.url == live {
				fill(t, live, "live.sql") // right before, so the worker counts as alive
			}
			got := execute(t, tt.url, tt.terminal, tt.args)
			if of, is := strings.CutPrefix(tt.golden, "status-"); is {
				want := map[string]int{"terminal": cli.ExitCritical, "pipe": cli.ExitCritical, "empty": cli.ExitOK}[of]
				if got.code != want {
					t.Errorf("exit code %d, want %d: %s", got.code, want, got.err)
				}
			} else if note := map[string]string{
				"list-limit": "There may be more: --limit shows more.\n",
			}[tt.golden]; got.code != cli.ExitOK || got.err != note {
				t.Fatalf("exit code %d: %s", got.code, got.err)
			}
			assertGolden(t, tt.golden, timeless(got.out))
			if strings.Contains(tt.args, "--json") && !json.Valid([]byte(got.out)) {
				t.Error("this is no JSON")
			}
		})
	}
}

func TestACommandSaysWhenThereIsNothingToShow(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	for _, args := range []string{
		"outbox report", "outbox list", "lag", "failed list", "failed stats", "failed log", "group list",
		"projection list", "gaps detect",
	} {
		got := execute(t, url, true, args)
		if got.code != cli.ExitOK || got.out != "" || got.err == "" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q: want a word on stderr alone", args, got.code, got.out, got.err)
		}
	}
}

func TestExitCodesTellTheCauses(t *testing.T) {
	t.Parallel()
	unmigrated, nowhere := pgtest.Empty(t), "postgres://nobody@127.0.0.1:1/none"
	tests := []struct {
		name, url, args string
		code            int
		message         string
	}{
		{"an unknown noun", nowhere, "inbox", cli.ExitUsage, `unknown command "inbox": there are `},
		{"no noun", nowhere, "", cli.ExitUsage, "tidemark what? There are "},
		{"an unknown verb", nowhere, "outbox count", cli.ExitUsage, `unknown command "count": there are list, report`},
		{"no verb", nowhere, "outbox", cli.ExitUsage, "outbox what? There are list, report"},
		{"an unknown flag", nowhere, "lag --yaml", cli.ExitUsage, "unknown flag: --yaml"},
		{"an argument too many", nowhere, "lag now", cli.ExitUsage, `unexpected "now"`},
		{
			"an unknown status", nowhere, "outbox list --status late", cli.ExitUsage,
			`--status "late": there is no such status: use one of pending, processing, paused, failed, dead, catching_up`,
		},
		{"a limit of nothing", nowhere, "outbox list --limit 0", cli.ExitUsage, `--limit "0": it is not a valid number: give a whole number, 1 or more`},
		{"a bad URL", "postgres://%zz", "lag", cli.ExitUsage, "TIDEMARK_DATABASE_URL"},
		{"no database", nowhere, "lag", cli.ExitUnavailable, "database unavailable"},
		{"no schema", unmigrated, "lag", cli.ExitFailed, "tidemark migrate up"},
		{
			"status without a schema", unmigrated, "status", cli.ExitFailed,
			"the schema tidemark is missing or of another version: migrate the database\ntry: tidemark migrate up\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := execute(t, tt.url, false, tt.args)
			if got.code != tt.code || !strings.Contains(got.err, tt.message) || got.out != "" {
				t.Errorf("exit code %d, stdout %q, stderr %q: want %d and %q on stderr", got.code, got.out, got.err, tt.code,
					tt.message)
			}
		})
	}
}

func TestColoursMarkWhatNeedsAttention(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	env := environment(database(t, "behind.sql"), true, &out, &bytes.Buffer{})
	env.Color = true
	if code := cli.Run(t.Context(), newRoot(env, stock()), env, []string{"outbox", "list"}); code != cli.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{"\x1b[31mdead\x1b[0m", "\x1b[33mfailed\x1b[0m", `\x1b[31mred`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

type result struct {
	code     int
	out, err string
}

// execute runs one command line.
func execute(t *testing.T, url string, terminal bool, args string) result {
	t.Helper()
	var out, errs bytes.Buffer
	env := environment(url, terminal, &out, &errs)
	code := perform(t.Context(), env, stock(), fields(args))
	return result{code, out.String(), errs.String()}
}

// fields splits a command line at spaces. Inside an argument %20 stands for a space and %09 for a
// tab.
func fields(line string) []string {
	words := strings.Fields(line)
	for i, word := range words {
		words[i] = strings.NewReplacer("%20", " ", "%09", "\t").Replace(word)
	}
	return words
}

func environment(url string, terminal bool, out, errs *bytes.Buffer) *cli.Env {
	return &cli.Env{
		Out: out, Err: errs, Terminal: terminal, Logger: slog.New(slog.DiscardHandler),
		Open: func(ctx context.Context, logger *slog.Logger) (*pgxpool.Pool, func() error, error) {
			if pool, shared := pools.Load(url); shared {
				return pool.(*pgxpool.Pool), func() error { return nil }, nil
			}
			return cli.OpenAt(func(context.Context, *slog.Logger) (string, func() error, error) {
				return url, func() error { return nil }, nil
			}, nil)(ctx, logger)
		},
	}
}

// pools holds the pools that the commands on a test's database share, by URL. A connect takes
// longer than most commands.
var pools sync.Map //nolint:gochecknoglobals // what a command gets is its URL

// fresh returns the URL of a migrated database for one test, whose commands share a pool.
func fresh(t *testing.T) string {
	t.Helper()
	return share(t, pgtest.New(t))
}

// share makes commands on the pool's database use the pool until the test ends. It returns the URL.
func share(t *testing.T, pool *pgxpool.Pool) (url string) {
	t.Helper()
	url = pool.Config().ConnString()
	pools.Store(url, pool)
	t.Cleanup(func() { pools.Delete(url) })
	return url
}

func poolOf(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, shared := pools.Load(url)
	if !shared {
		t.Fatalf("no pool is shared for %s", url)
	}
	return pool.(*pgxpool.Pool)
}

// database returns the URL of a database filled from files of testdata.
func database(t *testing.T, files ...string) string {
	t.Helper()
	url := fresh(t)
	fill(t, url, files...)
	return url
}

// fill runs files of testdata.
func fill(t *testing.T, url string, files ...string) {
	t.Helper()
	for _, file := range files {
		sql, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := poolOf(t, url).Exec(t.Context(), string(sql)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// timeless replaces text that depends on the time of the run, up to some minutes.
func timeless(s string) string {
	s = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`).ReplaceAllString(s, "2026-01-02T03:04:05Z")
	s = regexp.MustCompile(`(\dh) 3\dm`).ReplaceAllString(s, "$1 30m")
	return regexp.MustCompile(`seconds": [\d.]+`).ReplaceAllStringFunc(s, func(field string) string {
		seconds, err := strconv.ParseFloat(strings.TrimPrefix(field, `seconds": `), 64)
		if err != nil {
			return field
		}
		return fmt.Sprintf(`seconds": %d`, int(seconds)/900*900)
	})
}

// assertGolden compares got with testdata/name.golden. With UPDATE_GOLDEN it writes the file.
func assertGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s\n(UPDATE_GOLDEN=1 writes it)", got, want)
	}
}

// decoded decodes the item, the items or the detail of a document.
func decoded[T any](t *testing.T, text string) (what T) {
	t.Helper()
	var document struct {
		Version             int
		Item, Items, Detail json.RawMessage
	}
	err := json.Unmarshal([]byte(text), &document)
	if err == nil {
		err = json.Unmarshal(slices.Concat(document.Item, document.Items, document.Detail), &what)
	}
	if err != nil || document.Version != 1 {
		t.Fatalf("%v in %q, version %d", err, text, document.Version)
	}
	return what
}

package command

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const projectionFiles = " --projections-dir testdata/projections"

// played returns a database in which the projections of testdata have applied three campaigns, and
// a projector to continue with.
func played(t *testing.T) (*pgxpool.Pool, *projector.Projector) {
	t.Helper()
	pool := pgtest.New(t)
	share(t, pool)
	files, err := sqlfile.LoadDir(os.DirFS("testdata/projections"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := projector.New(projector.Config{Pool: pool, Projections: files})
	if err != nil {
		t.Fatal(err)
	}
	event := func(kind, player, payload string) event.Event {
		return event.Event{Type: kind, AggregateID: player, Actor: "ref", Payload: json.RawMessage(payload)}
	}
	for _, campaign := range []string{"ash", "elm", "oak"} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any,
				event("scored", "ada", `{"points": 3}`), event("scored", "bob", `{"points": 5}`),
				event("noted", "ada", `{"note": "a \u0007bell"}`),
				event("scored", "ada", `{"points": 4}`), event("left", "bob", `{}`), event("scored", "cyd", `{"points": 1}`))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	drained(t, p)
	return pool, p
}

func drained(t *testing.T, p *projector.Projector) {
	t.Helper()
	if _, err := p.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyPrintsDifferencesAndRepairsThem(t *testing.T) {
	t.Parallel()
	pool, p := played(t)
	url := pool.Config().ConnString()
	run := func(golden string, terminal bool, args string, code int) result {
		t.Helper()
		got := execute(t, url, terminal, args+projectionFiles)
		if got.code != code {
			t.Fatalf("%s: exit code %d, want %d: %s", args, got.code, code, got.err)
		}
		assertGolden(t, golden, timeless(withoutIDs(got.out)))
		return got
	}
	run("verify-same", true, "projection verify scores", cli.ExitOK)
	run("verify-same-json", false, "projection verify scores --sample 2 --json", cli.ExitOK)
	run("verify-proof", false, "projection verify scores --proof --json", cli.ExitOK)
	change(t, url, `DELETE FROM scores WHERE campaign_id = 'ash' AND player = 'cyd'`)
	change(t, url, `UPDATE scores SET points = 99, note = NULL WHERE campaign_id = 'elm' AND player = 'ada'`)
	change(t, url, `INSERT INTO scores VALUES ('oak', 'eve', 1)`)
	change(t, url, `INSERT INTO scores VALUES ('fir', 'eve', 1)`)
	run("verify-terminal", true, "projection verify scores --all", cli.ExitDifferences)
	run("verify-pipe", false, "projection verify scores --campaign elm", cli.ExitDifferences)
	run("verify-json", false, "projection verify scores --json", cli.ExitDifferences)
	run("verify-ignore", false, "projection verify scores --campaign elm --ignore points --ignore scores.note", cli.ExitOK)
	run("verify-limit", false, "projection verify scores --limit 1 --json", cli.ExitDifferences)
	if got := run("verify-repair", false, "projection verify scores --repair --by ada --reason why",
		cli.ExitDifferences); !strings.Contains(got.err, "3 campaigns filed") {
		t.Errorf("stderr %q", got.err)
	}
	drained(t, p)
	change(t, url, `DELETE FROM scores WHERE campaign_id = 'fir'`)
	run("verify-same", true, "projection verify scores", cli.ExitOK)
}

// withoutIDs replaces ids that are new in each run.
func withoutIDs(s string) string {
	return regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).ReplaceAllString(s,
		"01234567-89ab-cdef-0123-456789abcdef")
}

func TestTimeTravelPrintsWhatTheGoldenFilesSay(t *testing.T) {
	t.Parallel()
	pool, _ := played(t)
	tests := []struct {
		golden   string
		terminal bool
		args     string
	}{
		{"as-of-terminal", true, "campaign as-of --campaign oak --seq 3"},
		{"as-of-pipe", false, "campaign as-of --campaign oak --seq 6"},
		{"as-of-json", false, "campaign as-of --campaign oak --seq 1 --projection scores --json"},
		{"diff-terminal", true, "campaign diff --campaign oak --from 2 --to 6"},
		{"diff-pipe", false, "campaign diff --campaign oak --to 5"},
		{"diff-json", false, "campaign diff --campaign oak --from 3 --to 4 --json"},
		{"why-terminal", true, "campaign why --campaign oak --table scores --key ada"},
		{"why-seq", false, "campaign why --campaign oak --table scores --key ada --seq 3"},
		{"why-json", false, "campaign why --campaign oak --table scores --key ada --json"},
		{"why-gone-json", false, "campaign why --campaign oak --table scores --key bob --json"},
	}
	for _, tt := range tests {
		t.Run(tt.golden, func(t *testing.T) {
			t.Parallel()
			got := execute(t, pool.Config().ConnString(), tt.terminal, tt.args+projectionFiles)
			if got.code != cli.ExitOK || got.err != "" {
				t.Fatalf("exit code %d: %s", got.code, got.err)
			}
			out := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`).ReplaceAllString(timeless(withoutIDs(got.out)),
				"2026-01-02T03:04:05Z")
			assertGolden(t, tt.golden, out)
		})
	}
}

func TestVerifyAndTimeTravelSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	pool, _ := played(t)
	for i, tt := range []struct {
		args    string
		code    int
		message string
	}{
		{"projection verify", cli.ExitUsage, "Name one"},
		{"projection verify scores", cli.ExitUsage, "where is the code?"},
		{"projection verify points" + projectionFiles, cli.ExitFailed, "registered are scores; this program has scores"},
		{"projection verify scores --sample 0" + projectionFiles, cli.ExitUsage, "--sample 0: at least 1"},
		{"projection verify scores --sample 1 --all" + projectionFiles, cli.ExitUsage, "one at a time"},
		{"projection verify scores --yes" + projectionFiles, cli.ExitUsage, "need --repair"},
		{"campaign as-of --seq 1" + projectionFiles, cli.ExitUsage, "which campaign?"},
		{"campaign as-of --campaign oak" + projectionFiles, cli.ExitUsage, "after which event?"},
		{"campaign as-of --campaign oak --seq 7" + projectionFiles, cli.ExitFailed, "events are numbered from 1 to 6"},
		{"campaign as-of --campaign yew --seq 1" + projectionFiles, cli.ExitFailed, "no such event"},
		{"campaign diff --campaign oak" + projectionFiles, cli.ExitUsage, "up to which event?"},
		{"campaign diff --campaign oak --from 3 --to 2" + projectionFiles, cli.ExitUsage, "swap them"},
		{"campaign why --campaign oak" + projectionFiles, cli.ExitUsage, "which table?"},
		{"campaign why --campaign oak --table scores" + projectionFiles, cli.ExitFailed, `the primary key of scores`},
		{
			"campaign why --campaign oak --table nothing --key ada" + projectionFiles, cli.ExitFailed,
			`--table "nothing": no projection has such a table, there are `,
		},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			if got := execute(t, pool.Config().ConnString(), false, tt.args); got.code != tt.code ||
				!strings.Contains(got.err, tt.message) || got.out != "" {
				t.Errorf("%s: exit code %d, stdout %q, stderr %q: want %d and %q", tt.args, got.code, got.out, got.err, tt.code,
					tt.message)
			}
		})
	}
}

// TestTheTablesThatWereReplacedAreVerifiedByTheirOwnCode replaces version 1 with version 2. The
// previous tables are kept and updated.
func TestTheTablesThatWereReplacedAreVerifiedByTheirOwnCode(t *testing.T) {
	t.Parallel()
	pool, one := played(t)
	older, err := os.ReadFile("testdata/projections/scores.sql")
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.NewReplacer("-- version: 1", "-- version: 2", "'points')::integer)",
		"'points')::integer * 2)").Replace(string(older))
	newest, all := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		newest + "/scores.sql": newer, all + "/scores.sql": newer,
		all + "/older.sql": string(older),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := sqlfile.LoadDir(os.DirFS(newest))
	if err != nil {
		t.Fatal(err)
	}
	two, err := projector.New(projector.Config{Pool: pool, Projections: files})
	if err != nil {
		t.Fatal(err)
	}
	drained(t, two)
	drained(t, one) // as an old worker that still runs
	url := pool.Config().ConnString()
	run := func(args, directory string, code int, says string) {
		t.Helper()
		got := execute(t, url, false, args+" --projections-dir "+directory)
		if got.code != code || !strings.Contains(got.out+got.err, says) {
			t.Errorf("%s: exit code %d, want %d and %q: %s%s", args, got.code, code, says, got.out, got.err)
		}
	}
	const earlier = "testdata/projections"
	run("projection verify scores", newest, cli.ExitOK, "3 campaigns")
	run("projection verify scores~previous", earlier, cli.ExitOK, "3 campaigns")
	run("projection verify scores", all, cli.ExitOK, "3 campaigns")
	run("projection verify scores~previous", all, cli.ExitOK, "3 campaigns")
	run("projection verify scores~previous --proof", newest, cli.ExitOK, "3 campaigns")
	run("projection verify scores~previous", newest, cli.ExitConflict,
		"version 1 of scores~previous is registered, but this program has version 2: run the program with version 1")
	run("projection verify scores", earlier, cli.ExitConflict,
		"version 2 of scores is registered, but this program has version 1: run the program with version 2")
	run("projection verify scores~next", newest, cli.ExitFailed,
		"registered are scores, scores~previous; this program has scores")
	run("campaign as-of --campaign oak --seq 2 --projection scores~previous", earlier, cli.ExitUsage,
		"name scores, and run the version that you mean")
	run("campaign why --campaign oak --table scores --key ada --json", newest, cli.ExitOK, `"version": 1`)
	change(t, url, `DELETE FROM tidemark_previous_scores.scores WHERE campaign_id = 'ash' AND player = 'ada'`)
	run("projection verify scores", newest, cli.ExitOK, "3 campaigns")
	run("projection verify scores~previous --repair", earlier, cli.ExitDifferences, "1 campaign filed")
	drained(t, two)
	run("projection verify scores~previous", earlier, cli.ExitOK, "1 campaign")
	drained(t, one)
	run("projection verify scores~previous", earlier, cli.ExitOK, "3 campaigns")
}

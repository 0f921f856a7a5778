package command

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// lines returns the rows of a query with one text column.
func lines(t *testing.T, url, sql string, as ...func(string) string) []string {
	t.Helper()
	rows, err := poolOf(t, url).Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		for _, as := range as {
			all[i] = as(all[i])
		}
	}
	return all
}

func change(t *testing.T, url, sql string) {
	t.Helper()
	if _, err := poolOf(t, url).Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// actsIn returns the operators' acts in the failure log since the fixture, oldest first.
func actsIn(t *testing.T, url string) []string {
	t.Helper()
	return lines(t, url, `SELECT concat_ws(' ', act, projection, campaign_id, seq, 'by', actor, 'since', reason)
		FROM tidemark.failure_log
		WHERE actor IS NOT NULL AND at > now() - interval '1 minute' ORDER BY id`, numberless)
}

func TestActsPrintWhatTheGoldenFilesSay(t *testing.T) {
	t.Parallel()
	const who = " --by bob --reason mended"
	url := fresh(t) // shared: each case puts back what it needs
	repaired := []string{
		"repaired oak 1 by bob since mended (operation N)", "repaired ash\t 1 by bob since mended (operation N)",
	}
	tests := []struct {
		golden, fixtures string
		terminal         bool
		args             string
		acts             []string
	}{
		{
			"outbox-requeue", "failed.sql", true, "outbox requeue oak 2" + who,
			[]string{"requeued scores oak 2 by bob since mended", "requeued sessions oak 2 by bob since mended"},
		},
		{
			"outbox-requeue-json", "failed.sql", false, "outbox requeue oak 2 --json" + who,
			[]string{"requeued scores oak 2 by bob since mended", "requeued sessions oak 2 by bob since mended"},
		},
		{
			"failed-requeue-one", "failed.sql", true, "failed requeue scores oak" + who,
			[]string{"requeued scores oak 2 by bob since mended"},
		},
		{
			"failed-requeue-one-json", "failed.sql", false, "failed requeue scores oak --json" +
				who,
			[]string{"requeued scores oak 2 by bob since mended"},
		},
		{
			"failed-requeue-many", "failed.sql", true, "failed requeue --projection scores --wait" + who,
			[]string{
				"requeued scores oak 2 by bob since mended (operation N)",
				"requeued scores elm 1 by bob since mended (operation N)",
			},
		},
		{"failed-requeue-dry", "failed.sql", true, "failed requeue --all --dry-run" + who, nil},
		{"failed-requeue-dry-json", "failed.sql", false, "failed requeue --status failed --limit 1 --dry-run --json" +
			who, nil},
		{"failed-requeue-none", "failed.sql", true, "failed requeue --type renamed" + who, nil},
		{"failed-requeue-none-json", "failed.sql", false, "failed requeue --type renamed --json" + who, nil},
		{
			"failed-resolve", "failed.sql", true, "failed resolve scores oak --seq 2" + who,
			[]string{"resolved scores oak 2 by bob since mended"},
		},
		{
			"failed-resolve-many-json", "failed.sql", false, "failed resolve --status dead --yes --wait --json" + who,
			[]string{
				"resolved scores oak 2 by bob since mended (operation N)",
				"resolved scores elm 1 by bob since mended (operation N)",
			},
		},
		{"group-pause", "failed.sql", true, "group pause default" + who, []string{"paused by bob since mended"}},
		{
			"group-pause-json", "failed.sql", false, "group pause default --for 1d12h --json" + who,
			[]string{"paused by bob since mended"},
		},
		{
			"group-resume", "failed.sql paused.sql", true, "group resume search" + who,
			[]string{"resumed by bob since mended"},
		},
		{
			"group-resume-json", "failed.sql paused.sql", false, "group resume search --json" + who,
			[]string{"resumed by bob since mended"},
		},
		{
			"projection-pause", "failed.sql", true, "projection pause scores --for 90m" + who,
			[]string{"paused scores by bob since mended"},
		},
		{
			"projection-pause-json", "failed.sql", false, "projection pause scores --json" + who,
			[]string{"paused scores by bob since mended"},
		},
		{
			"projection-resume", "failed.sql paused.sql", true, "projection resume scores" + who,
			[]string{"resumed scores by bob since mended"},
		},
		{
			"projection-resume-json", "failed.sql paused.sql", false, "projection resume scores --json" + who,
			[]string{"resumed scores by bob since mended"},
		},
		{"campaign-pause", "failed.sql", true, "campaign pause oak" + who, []string{"paused oak by bob since mended"}},
		{
			"campaign-pause-json", "failed.sql", false, "campaign pause oak --group search --json" + who,
			[]string{"paused oak by bob since mended"},
		},
		{
			"campaign-pause-group", "failed.sql", false, "campaign pause ash%09 --group search" + who,
			[]string{"paused ash\t by bob since mended"},
		},
		{
			"campaign-resume", "failed.sql paused.sql", true, "campaign resume elm" + who,
			[]string{"resumed elm by bob since mended"},
		},
		{
			"campaign-resume-json", "failed.sql paused.sql", false, "campaign resume elm --json" + who,
			[]string{"resumed elm by bob since mended"},
		},
		{
			"gaps-repair", "failed.sql paused.sql", true, "gaps repair search --yes --wait" + who, repaired,
		},
		{
			"gaps-repair-json", "failed.sql paused.sql", false, "gaps repair search --yes --wait --json" + who, repaired,
		},
		{"gaps-repair-dry", "failed.sql paused.sql", true, "gaps repair search --dry-run" + who, nil},
		{"gaps-repair-dry-json", "failed.sql paused.sql", false, "gaps repair search --dry-run --json" + who, nil},
		{"gaps-repair-json-empty", "failed.sql paused.sql", false, "gaps repair default --json" + who, nil},
		{
			"projection-remove", "failed.sql", true, "projection remove scores --yes" + who,
			[]string{"removed scores by bob since mended"},
		},
		{
			"projection-remove-json", "failed.sql paused.sql", false, "projection remove scores --tables --yes --json" + who,
			[]string{"removed scores by bob since mended"},
		},
		{"projection-remove-dry", "failed.sql", true, "projection remove scores --tables --dry-run" + who, nil},
		{"projection-remove-dry-json", "failed.sql", false, "projection remove invites --dry-run --json" + who, nil},
		{
			"projection-rebuild", "failed.sql", true, "projection rebuild scores --max-share 0.2" + who,
			[]string{"rebuild_began scores by bob since mended"},
		},
		{"projection-rebuild-json", "failed.sql", false, "projection rebuild scores --keep 36h --allow-failed 2 --json" +
			who, []string{"rebuild_began scores by bob since mended"}},
		{
			"projection-rebuild-changed-json", "failed.sql rebuilding.sql", false,
			"projection rebuild scores --max-share 1 --json" + who, nil,
		},
		{
			"projection-rebuild-pause", "failed.sql rebuilding.sql", true, "projection pause-rebuild scores" + who,
			[]string{"paused scores~next by bob since mended"},
		},
		{
			"projection-rebuild-resume", "failed.sql rebuilding.sql rebuilding-paused.sql", true,
			"projection resume-rebuild scores" + who,
			[]string{"resumed scores~next by bob since mended"},
		},
		{
			"projection-rebuild-abort", "failed.sql rebuilding.sql", true, "projection abort-rebuild scores --yes" + who,
			[]string{"rebuild_aborted scores by bob since mended"},
		},
		{
			"projection-rebuild-abort-json", "failed.sql rebuilding.sql", false,
			"projection abort-rebuild scores --yes --json" + who,
			[]string{"rebuild_aborted scores by bob since mended"},
		},
		{"group-remove", "failed.sql", true, "group remove search --yes" + who, []string{"removed by bob since mended"}},
		{
			"group-remove-json", "failed.sql paused.sql", false, "group remove search --yes --json" + who,
			[]string{"removed by bob since mended"},
		},
		{"group-remove-dry", "failed.sql", true, "group remove search --dry-run" + who, nil},
		{"failed-resolve-dry", "failed.sql", true, "failed resolve --status dead --dry-run" + who, nil},
	}
	for _, tt := range tests {
		t.Run(tt.golden, func(t *testing.T) {
			fill(t, url, strings.Fields(tt.fixtures)...)
			if strings.Contains(tt.args, "--wait") {
				operate(t, url)
			}
			got := execute(t, url, tt.terminal, tt.args)
			if got.code != cli.ExitOK {
				t.Fatalf("exit code %d: %s", got.code, got.err)
			}
			said := strings.TrimPrefix(got.err, idle)
			assertGolden(t, tt.golden, numberless(timeless(got.out)+"--- stderr\n"+timeless(got.err)))
			if strings.Contains(tt.args, "--json") && (!json.Valid([]byte(got.out)) || said != "") {
				t.Errorf("stdout is no JSON, or there is something on stderr: %q", got.err)
			}
			if did := actsIn(t, url); !slices.Equal(did, tt.acts) {
				t.Errorf("the log has %q, want %q", did, tt.acts)
			}
		})
	}
}

// idle is the message while no worker runs.
const idle = "No worker is running: it continues when one starts.\n"

// numberless removes the numbers of operations, because tests share a database.
func numberless(text string) string {
	return regexp.MustCompile(`([Oo]peration|operation show|"id":) \d+`).ReplaceAllString(text, "$1 N")
}

func TestTheFlagFormDoesWhatTheNounFormDoes(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	for flagForm, nounForm := range map[string]string{
		"-outbox-requeue -outbox-requeue-campaign-id oak -outbox-requeue-seq 2 -json": "outbox requeue oak 2 --json",
		"-outbox-requeue-dead -outbox-requeue-dead-limit 1 -by bob":                   "failed requeue --status dead --limit 1 --by bob",
	} {
		t.Run(flagForm, func(t *testing.T) {
			run := func(args string) (result, []string) {
				fill(t, url, "failed.sql")
				change(t, url, forgetActs)
				got := requireRun(t, url, args, cli.ExitOK, "")
				got.out, got.err = numberless(timeless(got.out)), numberless(got.err)
				return got, logged(t, url)
			}
			alias, did := run(flagForm)
			if noun, want := run(nounForm); alias != noun || !slices.Equal(did, want) || len(did) == 0 {
				t.Errorf("got %+v and %q, want %+v and %q", alias, did, noun, want)
			}
		})
	}
}

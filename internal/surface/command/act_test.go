package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// lines answers what a query of one text column answers.
func lines(t *testing.T, url, sql string) []string {
	t.Helper()
	rows, err := poolOf(t, url).Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func change(t *testing.T, url, sql string) {
	t.Helper()
	if _, err := poolOf(t, url).Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// acts answers what the log says of operators since the fixture, oldest first.
func acts(t *testing.T, url string) []string {
	t.Helper()
	return lines(t, url, `SELECT concat_ws(' ', act, projection, campaign_id, seq, 'by', actor, 'since', reason)
		FROM tidemark.failure_log
		WHERE actor IS NOT NULL AND at > now() - interval '1 minute' ORDER BY id`)
}

func TestActsPrintWhatTheGoldenFilesSay(t *testing.T) {
	t.Parallel()
	const who = " --by bob --reason mended"
	url := fresh(t) // for all of them: each puts back what it needs
	tests := []struct {
		golden, fixtures string
		terminal         bool
		args             string
		acts             []string
	}{
		{
			"outbox-requeue", "deferred.sql", true, "outbox requeue --campaign oak --seq 2" + who,
			[]string{"requeued scores oak 2 by bob since mended", "requeued sessions oak 2 by bob since mended"},
		},
		{
			"outbox-requeue-json", "deferred.sql", false, "outbox requeue --campaign oak --seq 2 --json" + who,
			[]string{"requeued scores oak 2 by bob since mended", "requeued sessions oak 2 by bob since mended"},
		},
		{
			"outbox-requeue-dead", "deferred.sql", false, "outbox requeue-dead --limit 1" + who,
			[]string{"requeued scores oak 2 by bob since mended"},
		},
		{
			"outbox-requeue-dead-json", "deferred.sql", false, "outbox requeue-dead --json" + who,
			[]string{"requeued scores oak 2 by bob since mended", "requeued scores elm 1 by bob since mended"},
		},
		{"outbox-requeue-dead-dry", "deferred.sql", true, "outbox requeue-dead --dry-run" + who, nil},
		{"outbox-requeue-dead-json-empty", "deferred.sql", false, "outbox requeue-dead --group search --json" + who, nil},
		{
			"deferred-requeue-one", "deferred.sql", true, "failed requeue scores oak" + who,
			[]string{"requeued scores oak 2 by bob since mended"},
		},
		{
			"deferred-requeue-one-json", "deferred.sql", false, "failed requeue scores oak --json" +
				who,
			[]string{"requeued scores oak 2 by bob since mended"},
		},
		{
			"deferred-requeue-many", "deferred.sql", true, "failed requeue --message integer|null --older-than 1d" + who,
			[]string{"requeued scores oak 2 by bob since mended", "requeued scores elm 1 by bob since mended"},
		},
		{"deferred-requeue-dry", "deferred.sql", true, "failed requeue --all --dry-run" + who, nil},
		{"deferred-requeue-dry-json", "deferred.sql", false, "failed requeue --status failed --limit 1 --dry-run --json" +
			who, nil},
		{"deferred-requeue-none", "deferred.sql", true, "failed requeue --type renamed" + who, nil},
		{"deferred-requeue-none-json", "deferred.sql", false, "failed requeue --type renamed --json" + who, nil},
		{
			"deferred-retry", "deferred.sql", true, "failed retry scores oak" + who,
			[]string{"retried scores oak 2 by bob since mended"},
		},
		{
			"deferred-retry-json", "deferred.sql", false, "failed retry scores oak --json" + who,
			[]string{"retried scores oak 2 by bob since mended"},
		},
		{
			"deferred-resolve", "deferred.sql", true, "failed resolve scores oak --seq 2" + who,
			[]string{"resolved scores oak 2 by bob since mended"},
		},
		{
			"deferred-resolve-many-json", "deferred.sql", false, "failed resolve --status dead --yes --json" + who,
			[]string{"resolved scores oak 2 by bob since mended", "resolved scores elm 1 by bob since mended"},
		},
		{"group-pause", "deferred.sql", true, "group pause default" + who, []string{"paused by bob since mended"}},
		{
			"group-pause-json", "deferred.sql", false, "group pause default --for 1d12h --json" + who,
			[]string{"paused by bob since mended"},
		},
		{
			"group-resume", "deferred.sql paused.sql", true, "group resume search" + who,
			[]string{"resumed by bob since mended"},
		},
		{
			"group-resume-json", "deferred.sql paused.sql", false, "group resume search --json" + who,
			[]string{"resumed by bob since mended"},
		},
		{
			"projection-pause", "deferred.sql", true, "projection pause scores --for 90m" + who,
			[]string{"paused scores by bob since mended"},
		},
		{
			"projection-pause-json", "deferred.sql", false, "projection pause scores --json" + who,
			[]string{"paused scores by bob since mended"},
		},
		{
			"projection-resume", "deferred.sql paused.sql", true, "projection resume scores" + who,
			[]string{"resumed scores by bob since mended"},
		},
		{
			"projection-resume-json", "deferred.sql paused.sql", false, "projection resume scores --json" + who,
			[]string{"resumed scores by bob since mended"},
		},
		{"campaign-pause", "deferred.sql", true, "campaign pause oak" + who, []string{"paused oak by bob since mended"}},
		{
			"campaign-pause-json", "deferred.sql", false, "campaign pause oak --group search --json" + who,
			[]string{"paused oak by bob since mended"},
		},
		{
			"campaign-pause-group", "deferred.sql", false, "campaign pause ash%09 --group search" + who,
			[]string{"paused ash\t by bob since mended"},
		},
		{
			"campaign-resume", "deferred.sql paused.sql", true, "campaign resume elm" + who,
			[]string{"resumed elm by bob since mended"},
		},
		{
			"campaign-resume-json", "deferred.sql paused.sql", false, "campaign resume elm --json" + who,
			[]string{"resumed elm by bob since mended"},
		},
		{
			"gaps-repair", "deferred.sql paused.sql", true, "gaps repair --yes" + who,
			[]string{"repaired oak 1 by bob since mended", "repaired ash\t 1 by bob since mended"},
		},
		{
			"gaps-repair-json", "deferred.sql paused.sql", false, "gaps repair --group search --yes --json" + who,
			[]string{"repaired oak 1 by bob since mended", "repaired ash\t 1 by bob since mended"},
		},
		{"gaps-repair-dry", "deferred.sql paused.sql", true, "gaps repair --dry-run" + who, nil},
		{"gaps-repair-dry-json", "deferred.sql paused.sql", false, "gaps repair --dry-run --json" + who, nil},
		{"gaps-repair-json-empty", "deferred.sql paused.sql", false, "gaps repair --group default --json" + who, nil},
		{
			"projection-remove", "deferred.sql", true, "projection remove scores --yes" + who,
			[]string{"removed scores by bob since mended"},
		},
		{
			"projection-remove-json", "deferred.sql paused.sql", false, "projection remove scores --tables --yes --json" + who,
			[]string{"removed scores by bob since mended"},
		},
		{"projection-remove-dry", "deferred.sql", true, "projection remove scores --tables --dry-run" + who, nil},
		{"projection-remove-dry-json", "deferred.sql", false, "projection remove invites --dry-run --json" + who, nil},
		{
			"projection-rebuild", "deferred.sql", true, "projection rebuild scores --max-share 0.2" + who,
			[]string{"rebuild_began scores by bob since mended"},
		},
		{"projection-rebuild-json", "deferred.sql", false, "projection rebuild scores --keep 36h --allow-failed 2 --json" +
			who, []string{"rebuild_began scores by bob since mended"}},
		{
			"projection-rebuild-changed-json", "deferred.sql rebuilding.sql", false,
			"projection rebuild scores --max-share 1 --json" + who, nil,
		},
		{
			"projection-rebuild-pause", "deferred.sql rebuilding.sql", true, "projection pause-rebuild scores" + who,
			[]string{"paused scores~next by bob since mended"},
		},
		{
			"projection-rebuild-resume", "deferred.sql rebuilding.sql rebuilding-paused.sql", true,
			"projection resume-rebuild scores" + who,
			[]string{"resumed scores~next by bob since mended"},
		},
		{
			"projection-rebuild-abort", "deferred.sql rebuilding.sql", true, "projection abort-rebuild scores --yes" + who,
			[]string{"rebuild_aborted scores by bob since mended"},
		},
		{
			"projection-rebuild-abort-json", "deferred.sql rebuilding.sql", false,
			"projection abort-rebuild scores --yes --json" + who,
			[]string{"rebuild_aborted scores by bob since mended"},
		},
		{"group-remove", "deferred.sql", true, "group remove search --yes" + who, []string{"removed by bob since mended"}},
		{
			"group-remove-json", "deferred.sql paused.sql", false, "group remove search --yes --json" + who,
			[]string{"removed by bob since mended"},
		},
		{"group-remove-dry", "deferred.sql", true, "group remove search --dry-run" + who, nil},
		{"deferred-resolve-dry", "deferred.sql", true, "failed resolve --status dead --dry-run" + who, nil},
	}
	for _, tt := range tests {
		t.Run(tt.golden, func(t *testing.T) {
			fill(t, url, strings.Fields(tt.fixtures)...)
			got := execute(t, url, tt.terminal, tt.args)
			if got.code != cli.ExitOK {
				t.Fatalf("exit code %d: %s", got.code, got.err)
			}
			assertGolden(t, tt.golden, timeless(got.out)+"--- stderr\n"+timeless(got.err))
			if strings.Contains(tt.args, "--json") && (!json.Valid([]byte(got.out)) || got.err != "") {
				t.Errorf("stdout is no JSON, or there is something on stderr: %q", got.err)
			}
			if did := acts(t, url); !slices.Equal(did, tt.acts) {
				t.Errorf("the log has %q, want %q", did, tt.acts)
			}
		})
	}
}

func TestTheFlagFormDoesWhatTheNounFormDoes(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	for flagForm, nounForm := range map[string]string{
		"-outbox-requeue -outbox-requeue-campaign-id oak -outbox-requeue-seq 2 -json": "outbox requeue --campaign oak " +
			"--seq 2 --json",
		"-outbox-requeue-dead -outbox-requeue-dead-limit 1 -by bob": "outbox requeue-dead --limit 1 " +
			"--by bob",
	} {
		t.Run(flagForm, func(t *testing.T) {
			fill(t, url, "deferred.sql")
			alias := requireRun(t, url, flagForm, cli.ExitOK, "")
			did := acts(t, url)
			fill(t, url, "deferred.sql")
			noun := requireRun(t, url, nounForm, cli.ExitOK, "")
			if want := acts(t, url); alias != noun || !slices.Equal(did, want) || len(did) == 0 {
				t.Errorf("got %+v and %q, want %+v and %q", alias, did, noun, want)
			}
		})
	}
}

func TestAnActThatDoesNotFitSaysWhatToTypeNext(t *testing.T) {
	t.Parallel()
	url := database(t, "deferred.sql")
	const nowhere = "postgres://nobody@127.0.0.1:1/none"
	tests := []struct {
		name, url, args string
		code            int
		says            []string
	}{
		{
			"a failed campaign that is not there", url, "failed show scores yew", cli.ExitFailed,
			[]string{"no such failed campaign", "try: tidemark failed list --campaign yew"},
		},
		{
			"a failed campaign that is not there, to requeue", url, "failed requeue scores yew's", cli.ExitFailed,
			[]string{"no such failed campaign", `try: tidemark failed list --campaign 'yew'\''s'`},
		},
		{
			"a failed campaign that has not failed", url, "failed requeue sessions elm", cli.ExitConflict,
			[]string{"it is being rebuilt", "try: tidemark failed show sessions elm"},
		},
		{
			"a failed campaign that has not failed, to retry", url, "failed retry sessions elm",
			cli.ExitConflict,
			[]string{"it is being rebuilt"},
		},
		{
			"a failed campaign that stands elsewhere", url, "failed resolve scores oak --seq 1 --reason r",
			cli.ExitConflict,
			[]string{"it stands before event 2", "try: tidemark failed show"},
		},
		{
			"an event that nobody failed at", url, "outbox requeue --campaign oak --seq 3", cli.ExitFailed,
			[]string{"try: tidemark failed list --campaign oak"},
		},
		{
			"an event that is not resolved", url, "failed unresolve scores oak --seq 1 --reason r",
			cli.ExitFailed,
			[]string{"the event is not resolved", "try: tidemark failed resolutions --campaign oak"},
		},
		{
			"no reason to take back", nowhere, "failed unresolve scores oak --seq 2", cli.ExitUsage,
			[]string{"--reason is needed"},
		},
		{
			"no event to take back", nowhere, "failed unresolve scores oak --reason r", cli.ExitUsage,
			[]string{"--seq: it is missing"},
		},
		{
			"no campaign", nowhere, "failed show oak", cli.ExitUsage,
			[]string{"show what? Name PROJECTION and CAMPAIGN", "try: tidemark failed show --help"},
		},
		{"no event", nowhere, "outbox requeue --campaign oak", cli.ExitUsage, []string{"which event?"}},
		{
			"half a name", nowhere, "failed requeue scores", cli.ExitUsage,
			[]string{"requeue which failed campaign? Name PROJECTION and CAMPAIGN, or neither"},
		},
		{
			"a name and a choice", nowhere, "failed requeue scores oak --status dead", cli.ExitUsage,
			[]string{"scores oak: PROJECTION and CAMPAIGN name one failed campaign"},
		},
		{"an unknown projection", url, "failed show nosuch oak", cli.ExitFailed, []string{"try: tidemark projection list"}},
		{"nothing chosen", nowhere, "failed requeue", cli.ExitUsage, []string{"which failed campaigns?", "--all"}},
		{
			"a status that has not failed", nowhere, "failed requeue --status rebuilding", cli.ExitUsage,
			[]string{`--status "rebuilding": use one of failed, dead`},
		},
		{
			"no reason to skip", nowhere, "failed resolve scores oak --seq 2", cli.ExitUsage,
			[]string{"--reason is needed"},
		},
		{
			"a seq for many", nowhere, "failed resolve --projection scores --seq 2 --reason r", cli.ExitUsage,
			[]string{"--seq 2: it names"},
		},
		{
			"a limit below nothing", nowhere, "failed requeue --all --limit -1", cli.ExitUsage,
			[]string{"--limit -1: at least 1"},
		},
		{"a limit of nothing", nowhere, "outbox requeue-dead --limit 0", cli.ExitUsage, []string{"--limit 0: at least 1"}},
		{"an unknown act", nowhere, "failed log --act seen", cli.ExitUsage, []string{`--act "seen": there is no such act: use one of failed`}},
		{"no time", nowhere, "failed list --older-than soon", cli.ExitUsage, []string{"2h or 7d"}},
		{
			"a group that is not there", url, "group pause searhc", cli.ExitFailed,
			[]string{`consumer group "searhc"`, "try: tidemark group list"},
		},
		{
			"a projection that is not there", url, "projection pause score", cli.ExitFailed,
			[]string{"there are invites, scores, sessions", "try: tidemark projection list"},
		},
		{"a campaign that is not there", url, "campaign pause yew", cli.ExitFailed, []string{`campaign "yew"`}},
		{"a campaign that is not there, to show", url, "campaign show yew", cli.ExitFailed, []string{`no campaign "yew"`}},
		{
			"something that is not paused", url, "projection resume scores", cli.ExitConflict,
			[]string{"not paused", "try: tidemark group list"},
		},
		{
			"gaps of a group that is not there", url, "gaps detect --group searhc", cli.ExitFailed,
			[]string{"there are default, search"},
		},
		{
			"a group that has projections", url, "group remove default --yes", cli.ExitConflict,
			[]string{`has projection "invites"`, "in use", "try: tidemark projection list"},
		},
		{
			"a group that is not there, to remove", url, "group remove searhc --yes", cli.ExitFailed,
			[]string{"not registered", "try: tidemark group list"},
		},
		{
			"a projection that is not there, to remove", url, "projection remove score --yes", cli.ExitFailed,
			[]string{"there are invites, scores, sessions"},
		},
		{"nothing to remove", nowhere, "projection remove", cli.ExitUsage, []string{"remove what? Name PROJECTION"}},
		{
			"a pattern that is none", url, "failed list --message (", cli.ExitUsage,
			[]string{`--message "("`, "parentheses () not balanced"},
		},
		{
			"a pattern that is none, to requeue", url, "failed requeue --message (", cli.ExitUsage,
			[]string{"parentheses () not balanced"},
		},
		{"a pattern without a bound", url, `failed stats --message (a)\1`, cli.ExitUsage, []string{"back references"}},
		{"nothing to pause", nowhere, "campaign pause", cli.ExitUsage, []string{"pause what? Name CAMPAIGN"}},
		{"two things to pause", nowhere, "group pause a b", cli.ExitUsage, []string{`unexpected "b"`}},
		{
			"a rebuild that is not there", url, "projection abort-rebuild scores --yes", cli.ExitConflict,
			[]string{"not being rebuilt", "try: tidemark projection list"},
		},
		{
			"a rebuild that is not there, to pause", url, "projection pause-rebuild scores", cli.ExitConflict,
			[]string{"not being rebuilt"},
		},
		{
			"tables that are not kept", url, "projection rollback scores --yes", cli.ExitConflict,
			[]string{"no previous tables", "try: tidemark projection list"},
		},
		{
			"a share beyond all", url, "projection rebuild scores --max-share 2", cli.ExitFailed,
			[]string{"MaxShare is 2: it must be above 0 and not above 1"},
		},
		{
			"no database", nowhere, "failed requeue --all", cli.ExitUnavailable,
			[]string{"database unavailable", "try: psql"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := execute(t, tt.url, false, tt.args)
			if got.code != tt.code || got.out != "" {
				t.Errorf("exit code %d, stdout %q: want %d", got.code, got.out, tt.code)
			}
			for _, want := range tt.says {
				if !strings.Contains(got.err, want) {
					t.Errorf("stderr is %q, want %q in it", got.err, want)
				}
			}
		})
	}
}

// manyDead files n dead pairs more.
func manyDead(t *testing.T, url string, n int) {
	t.Helper()
	change(t, url, fmt.Sprintf(`INSERT INTO tidemark.deferred (campaign_id, projection, consumer_group, next_seq, status,
		attempt_count)
		SELECT 'c' || i, 'scores', 'default', 1, 'dead', 8 FROM generate_series(1, %d) AS i`, n))
}

func TestMuchIsConfirmedFirst(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	const asked = "This would requeue 122 failed campaigns. Type 122 to go on: "
	tests := []struct {
		name, args, typed string
		terminal          bool
		code              int
		says              string
		acts              int
	}{
		{"by its number", "failed requeue --status dead", "122\n", true, cli.ExitOK, asked, 122},
		{
			"and not by a yes", "failed requeue --status dead", "yes\n", true, cli.ExitDeclined,
			`declined: "yes" was typed, not 122`, 0,
		},
		{"and not by silence", "failed requeue --status dead", "", true, cli.ExitDeclined, "declined", 0},
		{"or by --yes", "failed requeue --status dead --yes", "", false, cli.ExitOK, "122 failed campaigns requeued", 122},
		{
			"by --yes alone where nobody can be asked", "failed requeue --status dead", "122\n", false, cli.ExitDeclined,
			"add --yes, or look first with --dry-run", 0,
		},
		{"but not up to a hundred", "outbox requeue-dead --limit 100", "", false, cli.ExitOK, "100 failed campaigns requeued", 100},
		{
			"beyond a hundred dead ones", "outbox requeue-dead --limit 101", "", false, cli.ExitDeclined, "requeue 101 failed campaigns",
			0,
		},
		{
			"in the flag form too", "-outbox-requeue-dead -outbox-requeue-dead-limit 101 -yes", "", false, cli.ExitOK,
			"101 failed campaigns requeued", 101,
		},
		{
			"beyond one where events are skipped", "failed resolve --projection scores --status dead --limit 2 --reason r",
			"2\n", true, cli.ExitOK, "skip the event of 2 failed campaigns", 2,
		},
		{
			"and one, whose event is named", "failed resolve scores oak --reason r", "2\n", true,
			cli.ExitOK, "This would skip for good event 2 (scored) of campaign oak, for projection scores. Type 2 to " +
				"go on: ", 1,
		},
		{
			"which is not skipped unasked", "failed resolve scores oak --reason r", "", false,
			cli.ExitDeclined, "skip for good event 2 (scored) of campaign oak", 0,
		},
		{
			"nor by another number", "failed resolve scores oak --reason r", "3\n", true,
			cli.ExitDeclined, "not 2; nothing was changed", 0,
		},
		{
			"but not where --seq names it", "failed resolve scores oak --seq 2 --reason r", "", false,
			cli.ExitOK, "1 failed campaign resolved", 1,
		},
		{
			"never in a dry run", "failed resolve --status dead --reason r --dry-run", "", false, cli.ExitOK,
			"122 failed campaigns would be resolved; nothing was changed", 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fill(t, url, "deferred.sql")
			manyDead(t, url, 120)
			var out, errs bytes.Buffer
			env := environment(url, false, &out, &errs)
			env.In, env.InTerminal = strings.NewReader(tt.typed), tt.terminal
			code := perform(t.Context(), env, stock(), fields(tt.args))
			if code != tt.code || !strings.Contains(errs.String(), tt.says) {
				t.Errorf("exit code %d, stderr %q: want %d and %q", code, errs.String(), tt.code, tt.says)
			}
			if did := len(acts(t, url)); did != tt.acts {
				t.Errorf("%d pairs were changed, want %d", did, tt.acts)
			}
			if code == cli.ExitDeclined && out.Len() > 0 {
				t.Errorf("stdout is %q", out.String())
			}
		})
	}
}

func TestActsAreSignedByWhoeverIsLoggedIn(t *testing.T) {
	t.Parallel()
	url := database(t, "deferred.sql")
	requireRun(t, url, "failed retry scores oak", cli.ExitOK, "tries scores in oak now")
	if got := acts(t, url); len(got) != 1 || !strings.Contains(got[0], "@") {
		t.Errorf("the log has %q, want user@host in it", got)
	}
	requireRun(t, fresh(t), "failed retry --help", cli.ExitOK, "")
	if help := execute(t, url, false, "failed retry --help"); !strings.Contains(help.out, `(default "user@host")`) {
		t.Errorf("help says\n%s", help.out)
	}
}

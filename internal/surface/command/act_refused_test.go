package command

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func TestAnActThatDoesNotFitSaysWhatToTypeNext(t *testing.T) {
	t.Parallel()
	url := database(t, "failed.sql")
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
			"a failed campaign that stands elsewhere", url, "failed resolve scores oak --seq 1 --reason r",
			cli.ExitConflict,
			[]string{"it stands before event 2", "try: tidemark failed show"},
		},
		{
			"an event that nobody failed at", url, "outbox requeue oak 3", cli.ExitFailed,
			[]string{"try: tidemark failed list --campaign oak"},
		},
		{
			"an event that is not resolved", url, "failed unresolve scores oak --seq 1 --reason r",
			cli.ExitFailed,
			[]string{"the event is not resolved", "try: tidemark failed resolutions --campaign oak"},
		},
		{
			"no reason to take back", nowhere, "failed unresolve scores oak --seq 2", cli.ExitUsage,
			[]string{"--reason is required"},
		},
		{
			"no event to take back", nowhere, "failed unresolve scores oak --reason r", cli.ExitUsage,
			[]string{"--seq: it is missing"},
		},
		{
			"no campaign", nowhere, "failed show oak", cli.ExitUsage,
			[]string{"show what? Name PROJECTION and CAMPAIGN", "try: tidemark failed show --help"},
		},
		{"no event", nowhere, "outbox requeue oak", cli.ExitUsage, []string{"requeue what? Name CAMPAIGN and SEQ"}},
		{
			"half a name", nowhere, "failed requeue scores", cli.ExitUsage,
			[]string{"requeue what? Name PROJECTION and CAMPAIGN"},
		},
		{
			"a name and a choice", nowhere, "failed requeue scores oak --status dead", cli.ExitUsage,
			[]string{"--status goes without PROJECTION and CAMPAIGN"},
		},
		{"an unknown projection", url, "failed show nosuch oak", cli.ExitFailed, []string{"try: tidemark projection list"}},
		{"nothing chosen", nowhere, "failed requeue", cli.ExitUsage, []string{"nothing chooses", "--all"}},
		{
			"a status that has not failed", nowhere, "failed requeue --status catching_up", cli.ExitUsage,
			[]string{`--status "catching_up": there is no such status: use one of failed, dead`},
		},
		{
			"no reason to skip", nowhere, "failed resolve scores oak --seq 2", cli.ExitUsage,
			[]string{"--reason is required"},
		},
		{
			"a seq for many", nowhere, "failed resolve --projection scores --seq 2 --reason r", cli.ExitUsage,
			[]string{"--seq goes with PROJECTION and CAMPAIGN"},
		},
		{
			"a limit below nothing", nowhere, "failed requeue --all --limit -1", cli.ExitUsage,
			[]string{`--limit "-1"`, "1 to 1000000"},
		},
		{"a limit of nothing", nowhere, "failed requeue --limit 0", cli.ExitUsage, []string{`--limit "0"`}},
		{
			"a dry run of one", nowhere, "failed requeue scores oak --dry-run", cli.ExitUsage,
			[]string{"--dry-run cannot be combined with PROJECTION and CAMPAIGN"},
		},
		{"an unknown act", nowhere, "failed log --act seen", cli.ExitUsage, []string{`--act "seen": there is no such act: use one of failed`}},
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

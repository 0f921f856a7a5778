package command

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// manyDead inserts n more dead campaigns.
func manyDead(t *testing.T, url string, n int) {
	t.Helper()
	change(t, url, fmt.Sprintf(`INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status,
		attempt_count, first_failed_at)
		SELECT 'c' || i, 'scores', 'default', 1, 'dead', 8, now() - interval '1 hour' FROM generate_series(1, %d) AS i`, n))
}

func TestMuchIsConfirmedFirst(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	const asked = "This would requeue 122 failed campaigns. Type requeue 122 to continue: "
	const tooMany = "this would requeue 101 failed campaigns"
	tests := []struct {
		name, args, typed string
		terminal          bool
		code              int
		says              string
		acts              int
	}{
		{"by its number", "failed requeue --status dead", "requeue 122\n", true, cli.ExitOK, asked, 122},
		{
			"and not by a yes", "failed requeue --status dead", "yes\n", true, cli.ExitDeclined,
			`declined: "yes" was typed, not requeue 122`, 0,
		},
		{"and not by silence", "failed requeue --status dead", "", true, cli.ExitDeclined, "declined", 0},
		{
			"or by --yes", "failed requeue --status dead --yes", "", false, cli.ExitOK,
			"is to requeue 122 failed campaigns", 122,
		},
		{
			"by --yes alone where nobody can be asked", "failed requeue --status dead", "requeue 122\n", false,
			cli.ExitDeclined, "add --yes, or preview it with --dry-run", 0,
		},
		{
			"but not up to a hundred", "failed requeue --status dead --limit 100", "", false, cli.ExitOK,
			"is to requeue 100 failed campaigns", 100,
		},
		{"beyond a hundred", "failed requeue --status dead --limit 101", "", false, cli.ExitDeclined, tooMany, 0},
		{
			"in the flag form too", "-outbox-requeue-dead -outbox-requeue-dead-limit 101", "", false, cli.ExitDeclined,
			tooMany, 0,
		},
		{
			"where events are skipped", "failed resolve --projection scores --status dead --limit 2 --reason r",
			"resolve 2\n", true, cli.ExitOK, "This would resolve 2 failed campaigns. Type resolve 2 to continue: ", 2,
		},
		{
			"and one of them", "failed resolve --campaign oak --projection scores --reason r", "", false, cli.ExitDeclined,
			"this would resolve 1 failed campaign", 0,
		},
		{
			"which is shown", "failed resolve --campaign oak --projection scores --reason r", "no\n", true,
			cli.ExitDeclined, "oak\tscores\t2\n", 0,
		},
		{
			"never in a dry run", "failed resolve --status dead --reason r --dry-run", "", false, cli.ExitOK,
			"This would resolve 122 failed campaigns; nothing was changed", 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fill(t, url, "failed.sql")
			manyDead(t, url, 120)
			change(t, url, `TRUNCATE tidemark.operations CASCADE`)
			var out, errs bytes.Buffer
			env := environment(url, false, &out, &errs)
			env.In, env.InTerminal = strings.NewReader(tt.typed), tt.terminal
			code := perform(t.Context(), env, stock(), fields(tt.args))
			if code != tt.code || !strings.Contains(errs.String(), tt.says) {
				t.Errorf("exit code %d, stderr %q: want %d and %q", code, errs.String(), tt.code, tt.says)
			}
			total := lines(t, url, `SELECT coalesce(sum(total), 0)::text FROM tidemark.operations WHERE state = 'running'`)
			if total[0] != strconv.Itoa(tt.acts) {
				t.Errorf("an operation on %s was started, want %d", total[0], tt.acts)
			}
			if code == cli.ExitDeclined && out.Len() > 0 {
				t.Errorf("stdout is %q", out.String())
			}
		})
	}
}

func TestActsAreSignedByWhoeverIsLoggedIn(t *testing.T) {
	t.Parallel()
	url := database(t, "failed.sql")
	requireRun(t, url, "failed requeue scores oak", cli.ExitOK, "Requeued scores in oak")
	if got := actsIn(t, url); len(got) != 1 || !strings.Contains(got[0], "@") {
		t.Errorf("the log has %q, want user@host in it", got)
	}
	requireRun(t, fresh(t), "failed requeue --help", cli.ExitOK, "")
	if help := execute(t, url, false, "failed requeue --help"); !strings.Contains(help.out, `(default "user@host")`) {
		t.Errorf("help says\n%s", help.out)
	}
}

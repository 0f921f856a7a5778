package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func TestAuditShowsWhatOperatorsDidWhicheverWay(t *testing.T) {
	t.Parallel()
	url := database(t, "failed.sql", "published.sql")
	change(t, url, forgetActs)
	requireRun(t, url, "audit", cli.ExitOK, "No matching acts.")
	for _, args := range []string{
		"failed requeue scores oak --by ada --reason mended",
		"group pause default --by bob --reason deploy", "publisher pause archive --topic orders --by bob --reason moves",
	} {
		requireRun(t, url, args, cli.ExitOK, "")
	}
	for filter, want := range map[string]string{
		"":                                      "publisher_paused paused failed_requeued",
		"--by bob":                              "publisher_paused paused",
		"--act paused --act failed_requeued":    "paused failed_requeued",
		"--campaign oak":                        "failed_requeued",
		"--topic orders --publisher archive":    "publisher_paused",
		"--limit 1":                             "publisher_paused",
		"--limit 1 --act paused --by bob":       "paused",
		"--before " + firstOf(t, url, "paused"): "failed_requeued",
	} {
		got := requireRun(t, url, strings.TrimSpace("audit --json "+filter), cli.ExitOK, "")
		var did []string
		for _, r := range decoded[[]struct{ Act string }](t, got.out) {
			did = append(did, r.Act)
		}
		if strings.Join(did, " ") != want {
			t.Errorf("audit %s has %q, want %q", filter, did, want)
		}
	}
	if got := requireRun(t, url, "audit --limit 2", cli.ExitOK, "Older ones: --before "); !strings.Contains(got.out,
		"deploy") {
		t.Errorf("it shows %s", got.out)
	}
	user := lines(t, url, `SELECT session_user::text`)[0]
	if got := requireRun(t, url, "audit --json --limit 1", cli.ExitOK, "").out; !strings.Contains(got, `"way": "cli"`) ||
		!strings.Contains(got, `"token_id": 0`) || !strings.Contains(got, `"address": ""`) ||
		!strings.Contains(got, `"database_user": "`+user+`"`) {
		t.Errorf("audit does not say which way an act came: %s", got)
	}
	if got := requireRun(t, url, "publisher log", cli.ExitOK, ""); strings.Contains(got.out, "failed_requeued") {
		t.Errorf("what was done to publishers is %s", got.out)
	}
	requireRun(t, url, "audit --act seen", cli.ExitUsage, `--act "seen": there is no such act: use one of`)
}

func firstOf(t *testing.T, url, act string) string {
	t.Helper()
	return lines(t, url, fmt.Sprintf(`SELECT min(id)::text FROM tidemark.operator_log WHERE act = '%s'`, act))[0]
}

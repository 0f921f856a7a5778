package command

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// TestVerifyKnowsWhatIsResolved resolves an event, with and without the failure log.
func TestVerifyKnowsWhatIsResolved(t *testing.T) {
	t.Parallel()
	for name, log := range map[string]string{"the log": `SELECT 1`, "no log": `TRUNCATE tidemark.failure_log`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, p := played(t)
			url := pool.Config().ConnString()
			run := func(args string, code int, says string) {
				t.Helper()
				got := execute(t, url, true, args+projectionFiles)
				if got.code != code || !strings.Contains(got.out+got.err, says) {
					t.Errorf("%s: exit code %d, want %d and %q: %s%s", args, got.code, code, says, got.out, got.err)
				}
			}
			// Event 6 of oak is the only one of cyd.
			change(t, url, `INSERT INTO tidemark.resolutions (campaign_id, projection, seq, actor, reason)
				VALUES ('oak', 'scores', 6, 'ada', 'not hers')`)
			change(t, url, `DELETE FROM scores WHERE campaign_id = 'oak' AND player = 'cyd'`)
			change(t, url, log)
			run("projection verify scores", cli.ExitOK, "not hers")
			run("projection verify scores --proof", cli.ExitOK,
				"It leaves out 1 event that operators have resolved: tidemark failed resolutions --projection scores")
			change(t, url, `DELETE FROM scores WHERE campaign_id = 'oak' AND player = 'ada'`)
			change(t, url, `INSERT INTO scores VALUES ('oak', 'cyd', 1)`)
			run("projection verify scores --campaign oak", cli.ExitDifferences, "cyd")
			run("projection verify scores --repair --by ada --reason why", cli.ExitDifferences, "1 campaign filed")
			drained(t, p)
			run("projection verify scores", cli.ExitOK, "not hers")
			run("projection verify scores --proof", cli.ExitOK, "It leaves out 1 event")
			if got := lines(t, url, `SELECT player FROM scores WHERE campaign_id = 'oak'
				ORDER BY player`); strings.Join(got, " ") != "ada" {
				t.Errorf("oak has %q, want ada alone", got)
			}
			if got := lines(t, url, `SELECT projection || ' ' || campaign_id || ' ' || status
				FROM tidemark.failed`); len(got) > 0 {
				t.Errorf("these are behind: %q", got)
			}
		})
	}
}

// TestWhatIsResolvedOfARemovedProjectionIsShownAndTakenBack prunes the removal from the log.
func TestWhatIsResolvedOfARemovedProjectionIsShownAndTakenBack(t *testing.T) {
	t.Parallel()
	pool, p := played(t)
	url := pool.Config().ConnString()
	change(t, url, `INSERT INTO tidemark.resolutions (campaign_id, projection, seq, actor, reason)
		VALUES ('oak', 'scores', 6, 'ada', 'not hers')`)
	if err := rebuild.Remove(t.Context(), pool, "scores", true, failed.Act{By: "ada"}); err != nil {
		t.Fatal(err)
	}
	change(t, url, `TRUNCATE tidemark.failure_log`)
	run := func(args string, code int, says string) {
		t.Helper()
		got := execute(t, url, true, args)
		if got.code != code || !strings.Contains(got.out+got.err, says) {
			t.Errorf("%s: exit code %d, want %d and %q: %s%s", args, got.code, code, says, got.out, got.err)
		}
	}
	run("failed resolutions --projection scores", cli.ExitOK, "not hers")
	run("failed resolutions --projection other", cli.ExitFailed, `no projection "other"`)
	run("failed unresolve scores oak --seq 6 --by ada --reason hers", cli.ExitOK, "")
	change(t, url, `TRUNCATE tidemark.failure_log`)
	run("failed resolutions --projection scores", cli.ExitFailed, `no projection "scores"`)
	drained(t, p)
}

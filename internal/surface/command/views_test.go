package command

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// reading returns the commands that show, with their arguments, for the fixtures or for a played
// game.
func reading() map[string][]string {
	return map[string][]string{
		"status":                 {""},
		"doctor":                 {""},
		"lag":                    {""},
		"audit":                  {"", "--by bob --limit 2"},
		"outbox list":            {"", "--status dead --campaign oak"},
		"outbox report":          {"", "--status failed"},
		"failed list":            {"", "--projection scores --status dead"},
		"failed show":            {"scores oak"},
		"failed stats":           {"", "--projection scores"},
		"failed log":             {"", "--campaign oak --act requeued"},
		"failed resolutions":     {"", "--projection scores --campaign oak"},
		"campaign list":          {"", "--prefix o"},
		"campaign show":          {"oak"},
		"campaign as-of":         {"--campaign oak --seq 3" + projectionFiles},
		"campaign diff":          {"--campaign oak --from 2 --to 6" + projectionFiles},
		"campaign why":           {"--campaign oak --table scores --key ada" + projectionFiles},
		"projection list":        {""},
		"projection places":      {""},
		"group list":             {""},
		"group pauses":           {"", "--group search"},
		"gaps detect":            {"", "--group default"},
		"gaps late":              {""},
		"publisher list":         {""},
		"publisher show":         {"archive", "shop --topic orders"},
		"publisher ghosts":       {"archive"},
		"publisher log":          {"", "--publisher archive --limit 1"},
		"publisher parked list":  {"", "--publisher archive --campaign oak"},
		"publisher parked show":  {"--campaign oak --seq 2"},
		"events import":          {"FILE"},
		"events export":          {"", "--campaign oak"},
		"events query":           {"--limit 2", "--type scored"},
		"catalogue check":        {"testdata/catalogue.yaml", "testdata/catalogue.yaml testdata/catalogue.yaml"},
		"erase list":             {"", "--before 2"},
		"campaign policies":      {""},
		"campaign requests":      {""},
		"erase verify":           {"testdata/certificate.json"},
		"workers list":           {"", "--group default"},
		"operation list":         {"", "--state failed", "--kind verify --before 9"},
		"operation show":         {"1", "1 --after 1 --limit 1"},
		"scheduled list":         {"", "--campaign oak", "--refused"},
		"scheduled show":         {"1", "2"},
		"token list":             {"", "--all"},
		"projection verify":      {"scores" + projectionFiles, "scores --proof" + projectionFiles},
		"failed requeue":         {"--all --dry-run"},
		"publisher parked retry": {"--all --dry-run"},
	}
}

func TestEveryViewShowsTheSameInEverySession(t *testing.T) {
	t.Parallel()
	pool, _ := played(t)
	game := pool.Config().ConnString()
	fixtures := database(t, "failed.sql", "paused.sql", "published.sql", "operations.sql", "scheduled.sql", "erased.sql")
	requireRun(t, fixtures, "token create eve", cli.ExitOK, "")
	change(t, fixtures, `UPDATE tidemark.workers
		SET seen_at = now() - interval '3 hours'`) // seconds must not decide which workers are alive
	for _, url := range []string{game, fixtures} {
		poolOf(t, url).Close() // a database with connections cannot be copied
	}
	sessions := pgtest.Sessions()
	shown := make([]map[string]string, len(sessions))
	t.Run("sessions", func(t *testing.T) {
		for i, session := range sessions {
			t.Run(session.Name, func(t *testing.T) {
				t.Parallel()
				shown[i] = showAll(t, share(t, session.Open(t, pgtest.CopyURL(t, fixtures))),
					share(t, session.Open(t, pgtest.CopyURL(t, game))))
			})
		}
	})
	for i, session := range sessions {
		for line, want := range shown[0] {
			if got := shown[i][line]; got != want && !strings.HasPrefix(line, "doctor") { // doctor reports on the session
				t.Errorf("in %s %s shows\n%s\nin %s\n%s", session.Name, line, got, sessions[0].Name, want)
			}
		}
	}
	for _, k := range commands() {
		if len(k.log) == 0 && reading()[k.command] == nil {
			t.Errorf("command %q is new: say here what it is asked", k.command)
		}
	}
}

// showAll returns the output of each view without numbers.
func showAll(t *testing.T, fixtures, game string) map[string]string {
	t.Helper()
	events := filepath.Join(t.TempDir(), "events.ndjson")
	if err := os.WriteFile(events, []byte(`{"campaign_id": "imported", "type": "scored"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := []int{cli.ExitOK, cli.ExitDifferences, cli.ExitWarnings, cli.ExitCritical}
	shown := map[string]string{}
	all := leaves(newRoot(environment("", false, nil, nil), stock()))
	for _, command := range slices.Sorted(maps.Keys(reading())) {
		for _, args := range reading()[command] {
			lines := []string{command + " " + args}
			if all[command].Flags().Lookup("json") != nil {
				lines = append(lines, command+" "+args+" --json")
			}
			url := fixtures
			if strings.Contains(args, projectionFiles) || strings.HasPrefix(command, "events") {
				url = game
			}
			for _, line := range lines {
				got := execute(t, url, false, strings.Replace(line, "FILE", events, 1))
				failing := got.code == cli.ExitFailed && command == "doctor" // it has findings
				if !failing && !slices.Contains(good, got.code) || strings.Contains(got.err, "SQLSTATE") || got.out+got.err == "" {
					t.Errorf("%s ends with %d: %s", line, got.code, got.err)
				}
				text := regexp.MustCompile(`[\da-f]{8}-[\da-f-]{27}`).ReplaceAllString(timeless(got.out), "UUID")
				text = regexp.MustCompile(`\d[\d.]*`).ReplaceAllString(text, "#")
				shown[line] = regexp.MustCompile(`#[dhms]( #[dhms])*`).ReplaceAllString(text, "AGE")
			}
		}
	}
	return shown
}

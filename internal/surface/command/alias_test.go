package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func TestTheFlagFormIsTheNounForm(t *testing.T) {
	t.Parallel()
	for flagForm, nounForm := range map[string]string{
		"-outbox-report": "outbox report",
		"-outbox-report -outbox-status failed -outbox-limit 100 -json": "outbox report --json=true " +
			"--limit=100 --status=failed",
		"--outbox-report --outbox-status=failed":                                "outbox report --status=failed",
		"-json -outbox-report":                                                  "outbox report --json=true",
		"-outbox-requeue -outbox-requeue-campaign-id oak -outbox-requeue-seq 7": "outbox requeue oak 7",
		"-outbox-requeue-dead -outbox-requeue-dead-limit 100":                   "failed requeue --status=dead --limit=100",
		"-outbox-requeue-dead -outbox-requeue-dead-limit=5 -yes -dry-run -reason r": "failed requeue --status=dead --dry-run=true " +
			"--limit=5 --reason=r --yes=true",
		"outbox list":                  "outbox list",
		"--help":                       "--help",
		"events import -outbox-report": "events import -outbox-report",
	} {
		got, err := fromFlagForm(strings.Fields(flagForm))
		if err != nil || !slices.Equal(got, strings.Fields(nounForm)) {
			t.Errorf("%s becomes %q, %v: want %s", flagForm, got, err, nounForm)
		}
	}
}

func TestAFlagFormThatMakesNoSenseIsAMistakeInTheCommandLine(t *testing.T) {
	t.Parallel()
	const nowhere = "postgres://nobody@127.0.0.1:1/none"
	for args, message := range map[string]string{
		"-outbox-status failed":                "do what? There are -outbox-report",
		"-outbox-report -outbox-requeue-dead":  "-outbox-report and -outbox-requeue-dead: one at a time",
		"-outbox-report -outbox-requeue-seq 7": "-outbox-requeue-seq does not belong to -outbox-report",
		"-outbox-report -outbox-status":        "flag needs an argument",
		"-outbox-report -outbox-limt 7":        "flag provided but not defined: -outbox-limt",
		"-outbox-report now":                   `unexpected "now"`,
		"-outbox-report -outbox-limit many":    `--limit "many"`,
		"-outbox-report -outbox-status late":   `--status "late"`,
		"-outbox-report -reason x":             "unknown flag: --reason",
	} {
		requireRun(t, nowhere, args, cli.ExitUsage, message)
	}
}

func TestTheFlagFormPrintsWhatTheNounFormPrints(t *testing.T) {
	t.Parallel()
	url := database(t, "behind.sql")
	for flagForm, nounForm := range map[string]string{
		"-outbox-report":       "outbox report",
		"-outbox-report -json": "outbox report --json",
		"-outbox-report -outbox-status failed -outbox-limit 100 -json": "outbox report --status failed --limit 100 --json",
	} {
		alias := requireRun(t, url, flagForm, cli.ExitOK, "")
		if noun := requireRun(t, url, nounForm, cli.ExitOK, ""); timeless(alias.out) != timeless(noun.out) ||
			alias.out == "" {
			t.Errorf("%s prints\n%s\n%s prints\n%s", flagForm, alias.out, nounForm, noun.out)
		}
	}
}

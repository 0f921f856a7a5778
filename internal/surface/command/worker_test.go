package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func TestWorkersAndOperationsPrintWhatTheGoldenFilesSay(t *testing.T) {
	t.Parallel()
	url, empty := database(t, "failed.sql", "operations.sql"), database(t)
	for _, tt := range []struct { // not parallel: one after the other
		golden, url, args string
		terminal          bool
		code              int
	}{
		{"worker-list-empty", empty, "workers list", true, cli.ExitOK},
		{"worker-list-json-empty", empty, "workers list --json", false, cli.ExitOK},
		{"worker-list-group", url, "workers list --group search --json", false, cli.ExitOK},
		{"worker-list-pipe", url, "workers list", false, cli.ExitOK},
		{"worker-drain", url, "workers drain w1 --yes --by bob --reason moves", true, cli.ExitOK},
		{"worker-list-terminal", url, "workers list", true, cli.ExitOK},
		{"worker-list-json", url, "workers list --json", false, cli.ExitOK},
		{"worker-undrain", url, "workers undrain w1 --by bob", true, cli.ExitOK},
		{"worker-drain-json", url, "workers drain w1 --yes --by bob --json", false, cli.ExitOK},
		{"worker-undrain-json", url, "workers undrain w1 --by bob --json", false, cli.ExitOK},
		{"worker-drain-nobody", url, "workers drain nobody --by bob", false, cli.ExitFailed},
		{"operation-list-empty", empty, "operation list", true, cli.ExitOK},
		{"operation-list-json-empty", empty, "operation list --json", false, cli.ExitOK},
		{"operation-list-terminal", url, "operation list", true, cli.ExitOK},
		{"operation-list-pipe", url, "operation list --state failed", false, cli.ExitOK},
		{"operation-list-limit", url, "operation list --kind verify --limit 1", false, cli.ExitOK},
		{"operation-list-json", url, "operation list --before 3 --json", false, cli.ExitOK},
		{"operation-show-terminal", url, "operation show 1", true, cli.ExitOK},
		{"operation-show-failed", url, "operation show 3", false, cli.ExitOK},
		{"operation-show-json", url, "operation show 1 --after 1 --limit 1 --json", false, cli.ExitOK},
		{"operation-abort", url, "operation abort 1 --by bob", true, cli.ExitOK},
		{"operation-abort-ended", url, "operation abort 1 --by bob", true, cli.ExitConflict},
		{"operation-show-aborted", url, "operation show 1 --limit 2", true, cli.ExitOK},
	} {
		t.Run(tt.golden, func(t *testing.T) {
			got := execute(t, tt.url, tt.terminal, tt.args)
			if got.code != tt.code {
				t.Fatalf("exit code %d, want %d: %s", got.code, tt.code, got.err)
			}
			assertGolden(t, tt.golden, timeless(got.out)+"--- stderr\n"+timeless(got.err))
			if strings.Contains(tt.args, "--json") && !json.Valid([]byte(got.out)) {
				t.Error("this is no JSON")
			}
		})
	}
	for args, message := range map[string]string{
		"operation list --state late":  `--state "late": there is no such state: use one of running, done, aborted, failed`,
		"operation list --kind mend":   `--kind "mend": there is no such kind: use one of requeue, resolve, `,
		"operation list --before -1":   `--before "-1": it is not a valid number`,
		"operation show x":             `ID "x": it is not a valid number: give a whole number, 1 or more`,
		"operation abort 0":            `ID "0": it is not a valid number: give a whole number, 1 or more`,
		"operation show 1 --limit 0":   `--limit "0": it is not a valid number`,
		"workers drain":                "drain what? Name OWNER",
		"workers undrain w1 w2":        `unexpected "w2"`,
		"operation abort":              "abort what? Name ID",
		"workers":                      "workers what? There are drain, list, undrain",
		"operation list --limit 0":     `--limit "0": it is not a valid number: give a whole number, 1 or more`,
		"operation show 1 2 --limit 7": `unexpected "2"`,
	} {
		requireRun(t, url, args, cli.ExitUsage, message)
	}
	requireRun(t, url, "operation abort 77", cli.ExitFailed, "try: tidemark operation list")
	requireRun(t, url, "operation show 77", cli.ExitFailed, "try: tidemark operation list")
}

func TestEveryCommandWritesJSONWhereItIsAsked(t *testing.T) {
	t.Parallel()
	// An export is always lines of JSON.
	for name, command := range leaves(newRoot(environment("", false, nil, nil), stock())) {
		if has := command.Flags().Lookup("json") != nil; has == (name == "events export") {
			t.Errorf("%s has --json: %t", name, has)
		}
	}
}

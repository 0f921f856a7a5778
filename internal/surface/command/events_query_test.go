package command

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func TestEventsAreQueriedByTypeAndTag(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	lines := `{"campaign_id":"a","type":"opened","tags":["wallet=1"],"payload":{"n":1}}
{"campaign_id":"a","type":"transferred","tags":["wallet=1","wallet=2"]}
{"campaign_id":"b","type":"opened","tags":["wallet=2"]}
{"campaign_id":"b","type":"noted"}
`
	requireRun(t, url, "events import "+writeFile(t, "wallets", lines), cli.ExitOK, "4 appended")
	for args, want := range map[string]string{
		"":                                "1 2 3 4",
		"--tag wallet=1":                  "1 2",
		"--tag wallet=1 --tag wallet=2":   "2",
		"--tag wallet=2 --type opened":    "3",
		"--type noted --type transferred": "2 4",
		"--tag wallet=2 --after 2":        "3",
		"--limit 2":                       "1 2",
		"--tag nothing":                   "",
	} {
		got := requireRun(t, url, "events query "+args, cli.ExitOK, "")
		var positions []string
		for _, line := range strings.Split(strings.TrimSpace(got.out), "\n")[1:] {
			if fields := strings.Fields(line); len(fields) > 0 {
				positions = append(positions, fields[0])
			}
		}
		if strings.Join(positions, " ") != want {
			t.Errorf("%q shows\n%s", args, got.out)
		}
		asJSON := requireRun(t, url, strings.TrimSpace("events query --json "+args), cli.ExitOK, "")
		if written := decoded[[]any](t, asJSON.out); written == nil || len(written) != len(positions) {
			t.Errorf("%q writes %s", args, asJSON.out)
		}
	}
	if got := requireRun(t, url, "events query --json --tag wallet=1 --limit 1", cli.ExitOK,
		""); !strings.Contains(got.out, `"campaign_id": "a"`) || !strings.Contains(got.out, `"n": 1`) {
		t.Errorf("it writes %s", got.out)
	}
	ids := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	for golden, args := range map[string]string{
		"events-query-terminal": "--limit 2",
		"events-query-json":     "--tag wallet=2 --json",
	} {
		got := execute(t, url, true, "events query "+args)
		assertGolden(t, golden, ids.ReplaceAllString(timeless(got.out), "ID"))
	}
	requireRun(t, url, "events query --limit 0", cli.ExitUsage, `--limit "0"`)
	requireRun(t, url, "events query --after -1", cli.ExitUsage, `--after "-1"`)
}

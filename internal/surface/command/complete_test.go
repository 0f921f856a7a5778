package command

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// completed returns the shell's completions for the last word.
func completed(t *testing.T, url string, words ...string) []string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := perform(t.Context(), environment(url, false, &out, &errs), stock(),
		append([]string{"__completeNoDesc"}, words...)); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1] // the last line is a directive for the shell
}

// The campaign "ash<tab>" is not offered, because a shell takes the tab for the end of the word.
func TestAShellIsOfferedWhatTheDatabaseHas(t *testing.T) {
	t.Parallel()
	url := database(t, "failed.sql", "operations.sql")
	for line, want := range map[string][]string{
		"outbox list --campaign |":       {"elm", "oak"},
		"outbox list --campaign o|":      {"oak"},
		"failed show scores |":           {"elm", "oak"},
		"failed show s|":                 {"scores", "sessions"},
		"failed requeue --fingerprint |": {"3f2a8c1d90be", "772a8c1d90be", "aa2a8c1d90be", "bb2a8c1d90be"},
		"failed requeue --status |":      {"failed", "dead"},
		"failed log --act re|": {
			"recovered", "requeued", "resolved", "replayed", "repaired",
			"resumed", "removed", "rebuild_began", "rebuilt", "rebuild_aborted",
		},
		"campaign show |":          {"elm", "oak"},
		"campaign show oak |":      {},
		"campaign pause o|":        {"oak"},
		"campaign pause --group |": {"default", "search"},
		"projection pause |":       {"invites", "scores", "sessions"},
		"projection remove s|":     {"scores", "sessions"},
		"group resume s|":          {"search"},
		"group remove |":           {"default", "search"},
		"workers drain |":          {"w1"},
		"workers list --group s|":  {"search"},
		"operation list --state |": {"running", "done", "aborted", "failed"},
		"operation list --kind re|": {
			"requeue", "resolve", "retry_parked", "resolve_parked", "replay", "repair_gaps",
			"republish",
		},
		"operation abort |":      {"1", "2", "3"},
		"token create --role |":  {"viewer", "operator", "admin"},
		"gaps repair |":          {"default", "search"},
		"outbox requeue e|":      {"elm"},
		"outbox list --status |": {"pending", "processing", "paused", "failed", "dead", "catching_up"},
	} {
		words := strings.Split(strings.TrimSuffix(line, "|"), " ")
		if got := completed(t, url, words...); !slices.Equal(got, want) {
			t.Errorf("%s is completed by %q, want %q", line, got, want)
		}
	}
}

func TestAShellIsOfferedNothingWhereThereIsNoDatabase(t *testing.T) {
	t.Parallel()
	if got := completed(t, "postgres://nobody@127.0.0.1:1/none", "outbox", "list", "--campaign", ""); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}

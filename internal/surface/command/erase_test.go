package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

const calledCatalogue = "types: {called: {subject: [who], personal: [who], schema: {type: object, required: [who]}}}"

// called returns a database with an event about ann, and a catalogue's file.
func called(t *testing.T) (url, file string) {
	t.Helper()
	url, file = database(t), filepath.Join(t.TempDir(), "catalogue.yaml")
	events := filepath.Join(t.TempDir(), "events.ndjson")
	for name, text := range map[string]string{
		file: calledCatalogue, events: `{"campaign_id": "oak", "type": "called", "payload": {"who": "ann.example", "n": 7}}` + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := execute(t, url, false, "events import "+events); got.code != 0 {
		t.Fatalf("import: %s", got.err)
	}
	return url, file
}

func TestASubjectThatMatchesNothingEndsWithItsOwnExitCode(t *testing.T) {
	t.Parallel()
	url, file := called(t)
	for _, line := range []string{
		"subject erase nobody --yes --reason test", "subject erase nobody --dry-run", "subject erase ann.example --dry-run",
		"campaign erase elm --yes --reason test", "campaign erase elm --dry-run",
	} {
		if got := execute(t, url, false, line); got.code != cli.ExitNothing || got.err == "" {
			t.Errorf("%s ends with %d: %s", line, got.code, got.err)
		}
	}
	line := "subject erase ann.example nobody --yes --reason test --catalogue " + file
	if got := execute(t, url, false, line); got.code != cli.ExitNothing || !strings.Contains(got.err, `nothing was found of ["nobody"]`) ||
		!strings.Contains(got.out, `"events": 1`) {
		t.Errorf("%s ends with %d: %s%s", line, got.code, got.out, got.err)
	}
	line = "subject erase ann.example --yes --reason test --catalogue " + file
	if got := execute(t, url, false, line); got.code != cli.ExitNothing || !strings.Contains(got.err, "is left that is not erased") {
		t.Errorf("again it ends with %d: %s", got.code, got.err)
	}
}

func TestADryRunOfAnErasureNeedsNoReason(t *testing.T) {
	t.Parallel()
	url, _ := called(t)
	if got := execute(t, url, false, "campaign erase oak --dry-run"); got.code != 0 ||
		!strings.Contains(got.err, "erase 1 event of campaign oak for good; nothing was changed") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	if got := execute(t, url, false, "campaign erase oak --yes"); got.code != cli.ExitUsage {
		t.Errorf("without a reason: exit code %d: %s", got.code, got.err)
	}
}

func TestACatalogueFitsErasedEvents(t *testing.T) {
	t.Parallel()
	url, file := called(t)
	check := "catalogue check " + file
	if got := execute(t, url, false, check); got.code != 0 {
		t.Fatalf("before: exit code %d: %s%s", got.code, got.out, got.err)
	}
	if got := execute(t, url, false, "subject erase ann.example --personal --yes --reason test --catalogue "+file); got.code != 0 {
		t.Fatalf("erase: %s", got.err)
	}
	if got := execute(t, url, false, check); got.code != 0 || !strings.Contains(got.err, "Erased of these: 1") {
		t.Errorf("after: exit code %d: %s%s", got.code, got.out, got.err)
	}
}

func TestASearchIsNotDoneBeforeTheErasureIs(t *testing.T) {
	t.Parallel()
	url, _ := called(t)
	got := execute(t, url, false, "campaign erase oak --yes --reason test")
	if got.code != 0 {
		t.Fatalf("erase: %s", got.err)
	}
	file := filepath.Join(t.TempDir(), "certificate.json")
	if err := os.WriteFile(file, []byte(got.out), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := execute(t, url, false, "erase verify "+file); got.code != 0 || !strings.Contains(got.err, "Found in none") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	change(t, url, `UPDATE tidemark.erasures SET ended_at = NULL, held_until = now()`)
	if got := execute(t, url, false, "erase verify "+file); got.code != cli.ExitPartial || !strings.Contains(got.err, "has not ended") {
		t.Errorf("interrupted: exit code %d: %s", got.code, got.err)
	}
	if got := execute(t, url, false, "erase list"); !strings.Contains(got.out, "interrupted") {
		t.Errorf("the list says %s", got.out)
	}
}

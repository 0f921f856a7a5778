package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
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

// TestTheCatalogueOfTheEnvironmentIsUsed has a subject that only a subject field names.
func TestTheCatalogueOfTheEnvironmentIsUsed(t *testing.T) {
	url, file := called(t)
	t.Setenv("TIDEMARK_CATALOGUE", file)
	if got := execute(t, url, false, "subject erase ann.example --dry-run"); got.code != 0 || !strings.Contains(got.err, "erase 1 event") {
		t.Errorf("dry run: exit code %d: %s", got.code, got.err)
	}
	if got := execute(t, url, false, "subject erase ann.example --personal --yes --reason test"); got.code != 0 ||
		!strings.Contains(got.out, `"events": 1`) {
		t.Errorf("exit code %d: %s%s", got.code, got.out, got.err)
	}
	t.Setenv("TIDEMARK_CATALOGUE", file+".away")
	if got := execute(t, url, false, "subject erase ann.example --dry-run"); got.code != cli.ExitUsage || !strings.Contains(got.err, ".away") {
		t.Errorf("with a file that is not there: exit code %d: %s", got.code, got.err)
	}
}

// TestACatalogueFitsSealedEvents has an event that is sealed, by a key that is deleted then.
func TestACatalogueFitsSealedEvents(t *testing.T) {
	t.Parallel()
	url, file := called(t)
	const keys = " --wrapping-keys-secret a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	types, err := yamlfile.Load(os.DirFS(filepath.Dir(file)), filepath.Base(file))
	if err != nil {
		t.Fatal(err)
	}
	wrappers, err := catalogue.ParseWrappingKeys(strings.TrimPrefix(keys, " --wrapping-keys-secret "))
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := catalogue.NewSealer(wrappers...)
	if err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), poolOf(t, url), func(tx pgx.Tx) error {
		_, err := journal.Journal{Catalogue: types.Sealed(sealer)}.Append(t.Context(), tx, "elm", journal.Any, event.Event{
			Type: "called", Payload: []byte(`{"who": "bob.example"}`),
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ line, says string }{
		{"", "Sealed, and not checked: 1"}, {keys, "all 2 events: 0 do not fit"},
	} {
		if got := execute(t, url, false, "catalogue check "+file+tt.line); got.code != 0 || !strings.Contains(got.err, tt.says) {
			t.Errorf("sealed%s: exit code %d: %s%s", tt.line, got.code, got.out, got.err)
		}
	}
	unnamed := filepath.Join(t.TempDir(), "unnamed.yaml") // the field is not personal any more
	if err := os.WriteFile(unnamed, []byte("types: {called: {schema: {properties: {who: {type: string}}}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := execute(t, url, false, "catalogue check "+unnamed); got.code != 0 || !strings.Contains(got.err, "not checked: 1") {
		t.Errorf("without the personal field: exit code %d: %s%s", got.code, got.out, got.err)
	}
	change(t, url, "DELETE FROM tidemark.keys; SELECT nextval('tidemark.erased')")
	for _, with := range []string{"", keys} {
		if got := execute(t, url, false, "catalogue check "+file+with); got.code != 0 || !strings.Contains(got.err, "0 do not fit") {
			t.Errorf("without its key%s: exit code %d: %s%s", with, got.code, got.out, got.err)
		}
	}
	if got := execute(t, url, false, "subject erase bob.example --yes --reason test --catalogue "+file+keys); got.code == 0 {
		t.Errorf("nothing is left to find him by: %s", got.err)
	}
	if got := execute(t, url, false, "campaign erase elm --yes --reason test --catalogue "+file); got.code != 0 {
		t.Fatalf("erase: %s", got.err)
	}
	for _, with := range []string{"", keys} {
		if got := execute(t, url, false, "catalogue check "+file+with); got.code != 0 || !strings.Contains(got.err, "Erased of these: 1") {
			t.Errorf("erased%s: exit code %d: %s%s", with, got.code, got.out, got.err)
		}
	}
}

// TestAKilledErasureIsSearchedForAndAbandonedByItsNumber has one that was killed before its first event.
func TestAKilledErasureIsSearchedForAndAbandonedByItsNumber(t *testing.T) {
	t.Parallel()
	url, _ := called(t)
	change(t, url, `SELECT tidemark.begin_erasure('oak', NULL, NULL, NULL, 'anna', 'killed', true)`)
	if got := execute(t, url, false, "erase abandon 1 --yes --reason lost"); got.code != cli.ExitConflict {
		t.Errorf("while it runs: exit code %d: %s", got.code, got.err)
	}
	if got := execute(t, url, false, "campaign erase oak --yes --reason test"); got.code != cli.ExitConflict ||
		!strings.Contains(got.err, `carried out by "anna"`) {
		t.Errorf("the same erasure while it runs: exit code %d: %s", got.code, got.err)
	}
	change(t, url, `UPDATE tidemark.erasures SET held_until = now()`)
	if got := execute(t, url, false, "erase verify 1"); got.code != cli.ExitPartial || !strings.Contains(got.err, "has not ended") {
		t.Errorf("verify: exit code %d: %s", got.code, got.err)
	}
	if got := execute(t, url, false, "erase abandon 1 --yes"); got.code != cli.ExitUsage {
		t.Errorf("without a reason: exit code %d: %s", got.code, got.err)
	}
	got := execute(t, url, false, "erase abandon 1 --yes --reason lost")
	if got.code != 0 || !strings.Contains(got.out, `"abandoned": true`) || !strings.Contains(got.err, "Abandoned erasure 1") {
		t.Fatalf("abandon: exit code %d: %s%s", got.code, got.out, got.err)
	}
	file := filepath.Join(t.TempDir(), "certificate.json")
	if err := os.WriteFile(file, []byte(got.out), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := execute(t, url, false, "erase verify "+file); got.code != 0 || !strings.Contains(got.err, "was abandoned") {
		t.Errorf("verify: exit code %d: %s", got.code, got.err)
	}
	if got := execute(t, url, false, "erase verify 1"); got.code == 0 || !strings.Contains(got.err, "no erasure 1 is unfinished") {
		t.Errorf("verify of one that has ended, by its number: exit code %d: %s", got.code, got.err)
	}
	if got := execute(t, url, false, "erase list"); !strings.Contains(got.out, "abandoned") {
		t.Errorf("the list says %s", got.out)
	}
	if got := execute(t, url, false, "erase abandon 1 --yes --reason lost"); got.code != cli.ExitNothing {
		t.Errorf("again: exit code %d: %s", got.code, got.err)
	}
}

package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/erasure"
)

func TestAnErasureNamesTheObjectsToDelete(t *testing.T) {
	t.Parallel()
	url, folder := database(t), t.TempDir()
	run := func(args string) result { return execute(t, url, false, args+" --reason test --yes") }
	add := filepath.Join(t.TempDir(), "events.ndjson")
	event := `{"campaign_id": "oak", "type": "noted", "payload": {"who": "ann"}}`
	if err := os.WriteFile(add, []byte(event), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := execute(t, url, false, "events import "+add); got.code != 0 {
		t.Fatalf("import: %s", got.err)
	}
	where := " --archive-url file://" + folder
	archived := run("campaign archive oak" + where)
	if archived.code != 0 || !strings.Contains(archived.err+archived.out, "Archived 1 event of 1 campaign") {
		t.Fatalf("archive: exit code %d, %s", archived.code, archived.err+archived.out)
	}
	if got := run("campaign erase oak"); got.code == 0 || !strings.Contains(got.err, "TIDEMARK_ARCHIVE_URL") {
		t.Errorf("without the archive: exit code %d, %s", got.code, got.err)
	}
	if got := run("campaign erase oak --archive-url file:///none/there"); got.code != cli.ExitUsage {
		t.Errorf("with a folder that is not there: exit code %d, %s", got.code, got.err)
	}
	got := run("campaign erase oak" + where)
	var c erasure.Certificate
	if err := json.Unmarshal([]byte(got.out), &c); err != nil || got.code != 0 || c.Events != 1 || len(c.Objects) != 1 {
		t.Fatalf("exit code %d, %s%s", got.code, got.out, got.err)
	}
	if !strings.Contains(got.err, "Delete "+c.Objects[0]) {
		t.Errorf("it says %s", got.err)
	}
	if _, err := os.Stat(filepath.Join(folder, c.Objects[0])); err != nil {
		t.Error(err)
	}
}

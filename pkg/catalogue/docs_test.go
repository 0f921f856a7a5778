package catalogue_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// snippets returns the fenced blocks of docs/guides/catalogue.md by language, in page order.
func snippets(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/guides/catalogue.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]string{}
	for i, part := range strings.Split(string(page), "```") {
		if language, block, ok := strings.Cut(part, "\n"); ok && i%2 == 1 {
			blocks[language] = append(blocks[language], block)
		}
	}
	return blocks
}

// loadFolder is a snippet of docs/guides/catalogue.md.
func loadFolder(folder string) (journal.Journal, error) {
	types, err := yamlfile.Load(os.DirFS(folder), "catalogue.yaml")
	if err != nil {
		return journal.Journal{}, err
	}
	return journal.Journal{Catalogue: types.RefuseUnknown()}, nil
}

func TestCataloguePage(t *testing.T) {
	t.Parallel()
	blocks := snippets(t)
	files := fstest.MapFS{
		"catalogue.yaml":          {Data: []byte(blocks["yaml"][0])},
		"schemas/note_added.json": {Data: []byte(blocks["json"][0])},
	}

	t.Run("shows a catalogue that loads and does what it says", func(t *testing.T) {
		t.Parallel()
		types, err := yamlfile.Load(files, "catalogue.yaml")
		if err != nil {
			t.Fatal(err)
		}
		old := event.Event{Type: "char_created", Version: 1, Payload: []byte(`{"name":"Åsa","hp":12,"legacy_id":9}`)}
		today, err := types.Current(old)
		if err != nil || string(today.Payload) != `{"name":"Åsa","stats":{"hit_points":12,"level":1}}` {
			t.Errorf("got %s, %v", today.Payload, err)
		}
	})

	t.Run("shows the mistakes of a catalogue as they are reported", func(t *testing.T) {
		t.Parallel()
		_, err := yamlfile.Load(fstest.MapFS{"catalogue.yaml": {Data: []byte(blocks["yaml"][1])}}, "catalogue.yaml")
		if want := strings.TrimSpace(blocks["text"][0]); err == nil || err.Error() != want {
			t.Errorf("got\n%v\nwant\n%s", err, want)
		}
	})

	t.Run("shows how the file becomes a journal", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		if err := os.CopyFS(folder, files); err != nil {
			t.Fatal(err)
		}
		events, err := loadFolder(folder)
		if err != nil {
			t.Fatal(err)
		}
		_, err = events.Append(t.Context(), nil, "c1", journal.Any, event.Event{Type: "unheard_of"})
		if err == nil || !strings.Contains(err.Error(), "refuses unknown types") {
			t.Errorf("got %v", err)
		}
	})
}

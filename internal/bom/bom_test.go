package bom_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/tidemark-go/tidemark/internal/publishing"
	"github.com/tidemark-go/tidemark/internal/retention"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
)

func TestFilesMayBeginWithAByteOrderMark(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		name := filepath.Join(t.TempDir(), "file.yaml")
		if err := os.WriteFile(name, []byte("\ufeff"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	if policies, _, err := retention.Load(write("policies: {old: {closed_for: 90d, by_type: [ended]}}\n")); err != nil ||
		len(policies) != 1 {
		t.Errorf("policies: %v, %v", policies, err)
	}
	kind := publisher.Kind{Name: "memory", Open: func(publisher.Settings) (publisher.Sink, error) {
		return &memory.Sink{}, nil
	}}
	routes, err := publishing.Load(write("topics: {all: {}}\npublishers: {all: {topics: [all], sink: {kind: memory}}}\n"),
		[]publisher.Kind{kind}, slog.New(slog.DiscardHandler))
	if err != nil || len(routes.Publishers) != 1 {
		t.Errorf("publishers: %+v, %v", routes, err)
	}
	files := fstest.MapFS{
		"catalogue.yaml": {Data: []byte("\ufefftypes: {placed: {schema: placed.json}}\n")},
		"placed.json":    {Data: []byte("\ufeff{\"type\": \"object\"}")},
	}
	if _, err := yamlfile.Load(files, "catalogue.yaml"); err != nil {
		t.Errorf("catalogue: %v", err)
	}
}

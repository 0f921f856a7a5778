package docstest

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/publishing"
	"github.com/tidemark-go/tidemark/internal/sinks"
	"github.com/tidemark-go/tidemark/pkg/webhook"
)

// TestPublishersFiles loads the documented publisher files as a worker does, and wraps snippets of
// single sinks into a file.
func TestPublishersFiles(t *testing.T) {
	t.Setenv("HOOK_SECRET", webhook.NewSecret().Reveal())
	loaded := 0
	for _, p := range pages(t) {
		for _, s := range p.in("yaml") {
			content := s.text
			switch {
			case strings.HasPrefix(content, "sink:\n"):
				content = "topics: {all: }\npublishers:\n  out:\n    topics: [all]\n    " +
					strings.ReplaceAll(strings.TrimSpace(content), "\n", "\n    ") + "\n"
			case !strings.Contains("\n"+content, "\npublishers:\n"):
				continue
			}
			path := filepath.Join(t.TempDir(), "publishers.yaml")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			routes, err := publishing.Load(path, sinks.Kinds(), slog.New(slog.DiscardHandler))
			if err == nil {
				err = routes.Close()
				loaded++
			}
			if err != nil {
				t.Errorf("%s:%d: %v", p.path, s.line, err)
			}
		}
	}
	if loaded < 3 {
		t.Errorf("%d files were loaded, the pages have more", loaded)
	}
}

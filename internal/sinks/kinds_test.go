package sinks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/sinks"
)

// Among other things, the rules expect that one id in two campaigns is two events.
func TestEachKindOfSinkIsHeldAgainstTheRules(t *testing.T) {
	t.Parallel()
	adapters, err := filepath.Glob("../../adapters/*/sink.go") // others are no sinks
	if err != nil || len(adapters) == 0 {
		t.Fatalf("adapters: %q, %v", adapters, err)
	}
	var folders []string
	for _, sink := range adapters {
		folders = append(folders, filepath.Dir(sink))
	}
	for _, kind := range sinks.Kinds() {
		folders = append(folders, filepath.Join("../../pkg/sink", kind.Name))
	}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		run := false
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			run = run || strings.Contains(string(source), "publishertest.Run(")
		}
		if !run {
			t.Errorf("no test of %s calls publishertest.Run", folder)
		}
	}
}

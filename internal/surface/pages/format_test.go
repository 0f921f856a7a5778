package pages_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestTemplatesCountThingsByPlural finds numbers followed by a fixed plural.
func TestTemplatesCountThingsByPlural(t *testing.T) {
	t.Parallel()
	counted := regexp.MustCompile(`\{\{(count [^{}]+|len [^{}]+|\.|\.[A-Z]\w+|\$d\.[A-Z]\w+)\}\}(</(?:a|b|span|strong)>)? ([a-z]+s)\b`)
	other := map[string]bool{"is": true, "has": true, "was": true}
	files, err := filepath.Glob("templates/*.html")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range counted.FindAllStringSubmatch(string(text), -1) {
			if !other[m[3]] {
				t.Errorf("%s: %q would say 1 %s; use plural", file, m[0], m[3])
			}
		}
	}
}

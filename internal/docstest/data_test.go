package docstest

import (
	"encoding/json"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestDataSnippets(t *testing.T) {
	t.Parallel()
	parsers := map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(b []byte, v any) error { return yaml.Unmarshal(b, v) },
	}
	for lang, unmarshal := range parsers {
		for _, p := range pages(t) {
			for _, s := range p.in(lang) {
				var v any
				if err := unmarshal([]byte(s.text), &v); err != nil {
					t.Errorf("%s:%d: %v", p.path, s.line, err)
				}
			}
		}
	}
}

package docstest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.+)$`)
	anchors := func(text string) map[string]bool {
		all := map[string]bool{}
		for _, h := range heading.FindAllStringSubmatch(text, -1) {
			all[anchor(h[1])] = true
		}
		return all
	}
	texts := map[string]string{}
	for _, p := range pages(t) {
		texts[p.path] = p.text
	}
	for _, p := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(p.text, -1) {
			target := m[1]
			if strings.Contains(target, "://") {
				continue
			}
			path, fragment, _ := strings.Cut(target, "#")
			full := p.path
			if path != "" {
				full = filepath.Join(filepath.Dir(p.path), path)
			}
			if _, err := os.Stat(filepath.Join(root, full)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", p.path, target)
				continue
			}
			if fragment != "" && !anchors(texts[full])[fragment] {
				t.Errorf("%s: the link to %s: %s has no such heading", p.path, target, full)
			}
		}
	}
}

// anchor returns the fragment of a heading: lower case, hyphens for spaces, and only letters,
// digits, - and _.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		default:
			return -1
		}
	}, strings.ToLower(heading))
}

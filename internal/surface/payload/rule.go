// Package payload decides who sees the payloads of events, and what of them.
package payload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-go/tidemark/internal/auth"
)

// Hidden is what stands in the place of a value that is not shown.
const Hidden = "…"

// Rule says who sees payloads and metadata, and which values are hidden from all. Its zero value hides nothing.
type Rule struct {
	Least  auth.Role // that sees payloads
	Redact []Path    // values that are hidden from everybody
}

// Path names values in a JSON document.
type Path struct {
	text  string
	steps []step
}

type step struct {
	name  string // of a field; "*" is any
	any   bool   // any field, or any element of an array
	index int    // of an array, where name is ""
	deep  bool   // here or anywhere below
}

// ParsePath reads a path such as $.card.number, $.items[*].price, $.lines[0] or $..email.
func ParsePath(text string) (Path, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "$")
	p := Path{text: text}
	for ok && rest != "" {
		var s step
		switch {
		case strings.HasPrefix(rest, "["):
			inside, after, closed := strings.Cut(rest[1:], "]")
			rest = after
			n, err := strconv.Atoi(inside)
			s.any, s.index = inside == "*", n
			ok = closed && (s.any || err == nil && n >= 0)
		case strings.HasPrefix(rest, "."):
			rest = rest[1:]
			rest, s.deep = strings.CutPrefix(rest, ".")
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			s.name, rest = rest[:end], rest[end:]
			s.any = s.name == "*"
			ok = s.name != ""
		default:
			ok = false
		}
		p.steps = append(p.steps, s)
	}
	if !ok || len(p.steps) == 0 {
		return Path{}, fmt.Errorf("has %q, which is no path: write it as $.card.number, $.items[*].price or $..email", text)
	}
	return p, nil
}

// String answers the path as it was read.
func (p Path) String() string { return p.text }

// ParsePaths reads paths with commas between them.
func ParsePaths(list string) ([]Path, error) {
	var paths []Path
	for text := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		p, err := ParsePath(text)
		if err != nil {
			return nil, err
		}
		paths = append(paths, p)
	}
	return paths, nil
}

// Sees says whether a user sees payloads at all.
func (r Rule) Sees(id auth.Identity) bool { return id.Role >= r.Least }

// Show answers what a user sees of a payload or of metadata: nil for nothing at all, and a
// document that is no JSON as it is.
func (r Rule) Show(id auth.Identity, document json.RawMessage) json.RawMessage {
	if !r.Sees(id) {
		return nil
	}
	if len(r.Redact) == 0 || len(document) == 0 {
		return document
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var root any
	if d.Decode(&root) != nil {
		return document
	}
	for _, p := range r.Redact {
		root = hide(root, p.steps)
	}
	shown, err := json.Marshal(root)
	if err != nil {
		return nil
	}
	return shown
}

// hide answers v without the values that the steps lead to.
func hide(v any, steps []step) any {
	if len(steps) == 0 {
		return Hidden
	}
	s := steps[0]
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if s.name != "" && (s.any || name == s.name) {
				value = hide(value, steps[1:])
			}
			if s.deep {
				value = hide(value, steps)
			}
			v[name] = value
		}
	case []any:
		for i, value := range v {
			if s.any || s.name == "" && i == s.index {
				value = hide(value, steps[1:])
			}
			if s.deep {
				value = hide(value, steps)
			}
			v[i] = value
		}
	}
	return v
}

// String answers the rule for a person.
func (r Rule) String() string {
	texts := make([]string, len(r.Redact))
	for i, p := range r.Redact {
		texts[i] = p.text
	}
	slices.Sort(texts)
	return fmt.Sprintf("payloads for %s; hidden: %s", r.Least, strings.Join(texts, ", "))
}

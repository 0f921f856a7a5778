// Package payload decides which roles see the payloads of events, and which values are hidden in them.
package payload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/slice"
)

// Hidden replaces a value that is hidden.
const Hidden = "…"

// Rule controls who sees payloads and metadata, and which values are hidden from all roles. The zero
// value hides nothing.
type Rule struct {
	Least  auth.Role // lowest role that sees payloads
	Redact []Path    // values hidden from all roles
}

// Path names values in a JSON document.
type Path struct {
	text  string
	steps []step
}

type step struct {
	name  string // of a field; "*" is any
	any   bool   // any field, or any element of an array
	index int    // of an array, if name is ""
	deep  bool   // at this level or any below
}

// ParsePath parses a path such as $.card.number, $.items[*].price, $.lines[0] or $..email.
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
		return Path{}, fmt.Errorf("has %q, which is not a path: write $.card.number, $.items[*].price or $..email", text)
	}
	return p, nil
}

// String returns the text that the path was parsed from.
func (p Path) String() string { return p.text }

// ParsePaths parses paths separated by commas.
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

// Sees reports whether a user may see payloads.
func (r Rule) Sees(id auth.Identity) bool { return id.Role >= r.Least }

// Show returns the part of a payload or of metadata that a user may see: nil if none. It returns
// documents that are not JSON unchanged.
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

// String describes the rule for a person.
func (r Rule) String() string {
	texts := slice.Of(r.Redact, Path.String)
	slices.Sort(texts)
	return fmt.Sprintf("payloads for %s; hidden: %s", r.Least, strings.Join(texts, ", "))
}

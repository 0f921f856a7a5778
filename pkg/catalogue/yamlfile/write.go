package yamlfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
)

// Write returns a catalogue as a file that [Load] reads: for programs that declare their types in Go, beside a
// worker and commands that read the file. Compare it with the file in a test, so that neither is forgotten.
//
// Upcasters of code ([catalogue.Convert]) cannot be in a file: the error names the type.
func Write(types *catalogue.Catalogue) ([]byte, error) {
	var f struct {
		UnknownTypes string `json:"unknown_types"`
		Types        map[string]map[string]json.RawMessage
	}
	doc, err := json.Marshal(cmp.Or(types, &catalogue.Catalogue{}))
	if err == nil {
		err = json.Unmarshal(doc, &f)
	}
	if err != nil {
		return nil, fmt.Errorf("write an event catalogue: %w", err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "unknown_types: %s\n", f.UnknownTypes)
	if len(f.Types) > 0 {
		out.WriteString("\ntypes:\n")
	}
	for _, name := range slices.Sorted(maps.Keys(f.Types)) {
		t := f.Types[name]
		fmt.Fprintf(&out, "  %s:\n", key(name))
		for _, field := range []string{"version", "intent", "aliases", "upcast", "schema", "subject", "personal"} {
			switch value, given := t[field]; {
			case given && field == "upcast":
				if err := writeUpcasters(&out, value); err != nil {
					return nil, fmt.Errorf("write an event catalogue: %w", err)
				}
			case given:
				fmt.Fprintf(&out, "    %s: %s\n", field, flow(value))
			}
		}
	}
	return out.Bytes(), nil
}

// writeUpcasters writes one step a line.
func writeUpcasters(out *bytes.Buffer, value json.RawMessage) error {
	var versions map[int][]json.RawMessage
	if err := json.Unmarshal(value, &versions); err != nil {
		return err
	}
	out.WriteString("    upcast:\n")
	for _, from := range slices.Sorted(maps.Keys(versions)) {
		fmt.Fprintf(out, "      %d:\n", from)
		for _, step := range versions[from] {
			fmt.Fprintf(out, "        - %s\n", flow(step))
		}
	}
	return nil
}

// plain matches names that YAML takes for nothing else.
var plain = regexp.MustCompile(`^[a-z]+_[a-z0-9_]*$`)

func key(name string) string {
	if plain.MatchString(name) {
		return name
	}
	quoted, _ := json.Marshal(name) // a string has an encoding
	return string(quoted)
}

// literal matches the strings and numbers of JSON, with what follows them.
var literal = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|[,:]`)

// flow returns JSON as YAML on one line.
func flow(value json.RawMessage) []byte {
	return literal.ReplaceAllFunc(value, func(found []byte) []byte {
		exponent := bytes.IndexAny(found, "eE")
		switch {
		case found[0] == ',' || found[0] == ':':
			return append(slices.Clone(found), ' ')
		case found[0] == '"' && plain.Match(found[1:len(found)-1]):
			return found[1 : len(found)-1]
		case found[0] == '"' || exponent < 0 || bytes.Contains(found, []byte(".")):
			return found
		}
		return slices.Concat(found[:exponent], []byte(".0"), found[exponent:]) // without a point, YAML has a text
	})
}

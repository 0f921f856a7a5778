package jsonschema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/jsonschema"
)

var _ catalogue.Schema = (*jsonschema.Schema)(nil)

func TestASchemaNamesThePlacesAndRulesThatAPayloadBreaks(t *testing.T) {
	t.Parallel()
	s, err := jsonschema.Compile(`{"type": "object", "required": ["name"], "additionalProperties": false,
		"properties": {"name": {"minLength": 1}, "email": {"format": "email"}, "n": {"type": ["integer", "null"]},
		"a": {"enum": [1]}, "b": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}`)
	if err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string]string{
		`{"name": "x"}`:                     "",
		`{}`:                                "the document lacks name",
		`{"name": ""}`:                      "/name breaks the rule minLength",
		`{"name": "x", "email": "hunter2"}`: "/email breaks the rule format",
		`{"name": "x", "n": 1.5}`:           "/n must be null or integer, is number",
		`{"name": "x", "b": []}`:            "/b breaks the rule anyOf",
		`{"name": "x", "hunter": 2}`:        `the document has unknown fields "hunter"`,
		`{"name": "", "email": "hunter2", "n": "hunter2", "a": "hunter2"}`: "and 1 more",
		`{`: "it is not valid JSON",
	} {
		err := s.Check([]byte(payload))
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", payload, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", payload, err, want)
		}
	}
}

func TestASchemaThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`{"type": "objekt"}`: "/type ",
		`{`:                  "not valid JSON",
		`{"$ref": "https://example.com/schema.json"}`: `failing loading "https://example.com/schema.json": schemas are never loaded`,
		`{"$ref": "file:///etc/hostname"}`:            `failing loading "file:///etc/hostname": schemas are never loaded`,
	} {
		if _, err := jsonschema.Compile(source); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, want) {
					t.Errorf("%s: the panic says %s", source, said)
				}
			}()
			jsonschema.MustCompile(source)
		}()
	}
}

func ExampleMustCompile() {
	placed := jsonschema.MustCompile(`{"required": ["total"], "properties": {"total": {"type": "integer"}}}`)
	types, err := catalogue.New(catalogue.EventType{Name: "order_placed", Schema: placed})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(types.Names("order_placed"))
	fmt.Println(placed.Check([]byte(`{"total": "3"}`)))
	// Output:
	// [order_placed]
	// /total must be integer, is string
}

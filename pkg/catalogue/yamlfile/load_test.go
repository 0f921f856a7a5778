package yamlfile_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

func load(source string) (*catalogue.Catalogue, error) {
	return yamlfile.Load(fstest.MapFS{
		"conf/catalogue.yaml":     {Data: []byte(source)},
		"conf/schemas/noted.json": {Data: []byte(`{"type":"object","required":["text"]}`)},
	}, "conf/catalogue.yaml")
}

// admit returns what an append makes of an event, or its refusal.
func admit(t *testing.T, types *catalogue.Catalogue, e event.Event) (string, error) {
	t.Helper()
	return journal.Journal{Catalogue: types}.Encode(t.Context(), nil, "c", []event.Event{e})
}

func TestLoad(t *testing.T) {
	t.Parallel()

	t.Run("reads every field", func(t *testing.T) {
		t.Parallel()
		types, err := load(`
unknown_types: refuse
types:
  "created":
    version: 2
    intent: audit_only
    aliases: [made, "born"]
    upcast:
      1:
        - rename: {hp: hit_points, stats.x: y}
        - default:
            level: 1
            more: {c: [1, 2.5, true, null, text]}
        - move: {hit_points: stats.hit_points}
        - remove: [old]
          default: {last: "1"}
    schema: {type: object, required: [level], properties: {level: {minimum: 0.5}}}
  noted: {schema: schemas/noted.json}
  plain:
`)
		if err != nil {
			t.Fatal(err)
		}
		today, err := types.Current(event.Event{Type: "born", Version: 1, Payload: []byte(`{"hp":5,"stats":{"x":1},"old":0}`)})
		want := `{"last":"1","level":1,"more":{"c":[1,2.5,true,null,"text"]},"stats":{"hit_points":5,"y":1}}`
		if err != nil || today.Type != "created" || today.Version != 2 || string(today.Payload) != want {
			t.Errorf("got %s version %d %s, %v; want %s", today.Type, today.Version, today.Payload, err, want)
		}
		for payload, field := range map[string]string{`{"level":1}`: "", `{"level":0}`: "payload", `{}`: "payload"} {
			e := event.Event{Type: "made", Payload: []byte(payload)}
			doc, err := admit(t, types, e)
			if (err == nil) != (field == "") || err == nil && !strings.Contains(doc, `"intent":"audit_only"`) {
				t.Errorf("%s: %v, %s", payload, err, doc)
			}
		}
		for e, accepted := range map[*event.Event]bool{
			{Type: "noted"}: false,
			{Type: "noted", Payload: []byte(`{"text":""}`)}: true, {Type: "plain"}: true, {Type: "other"}: false,
		} {
			if _, err := admit(t, types, *e); (err == nil) != accepted {
				t.Errorf("%s %s: %v", e.Type, e.Payload, err)
			}
		}
	})

	for name, source := range map[string]string{
		"an empty file":        "",
		"nothing but comments": "# later\n",
		"no types":             "unknown_types: accept\n",
	} {
		t.Run("takes "+name+" for an empty catalogue", func(t *testing.T) {
			t.Parallel()
			types, err := load(source)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := admit(t, types, event.Event{Type: "other"}); err != nil {
				t.Error(err)
			}
		})
	}

	for name, test := range map[string]struct {
		source string
		want   []string
	}{
		"a file that is no YAML": {"types:\n  a: [\n", []string{"conf/catalogue.yaml:2: "}},
		"a key given twice": {
			"types:\n  a: {}\n  a: {}\n",
			[]string{`conf/catalogue.yaml:3: mapping key "a" already defined`},
		},
		"a second document":      {"types: {}\n---\ntypes: {}\n", []string{"conf/catalogue.yaml has a second document"}},
		"a list for a mapping":   {"- a\n", []string{"conf/catalogue.yaml:1: "}},
		"an unknown field":       {"types:\n  a: {colour: red}\n", []string{`conf/catalogue.yaml:2: unknown field "colour"`}},
		"an unknown step":        {"types:\n  a:\n    upcast:\n      1: [{renam: {x: y}}]\n", []string{`:4: unknown field "renam"`}},
		"a version that is none": {"types:\n  a:\n    version: two\n", []string{"conf/catalogue.yaml:3: "}},
		"a step that is no list": {"types:\n  a:\n    upcast: {1: {}}\n", []string{"conf/catalogue.yaml:3: "}},
		"an unknown policy": {
			"unknown_types: perhaps\n",
			[]string{"conf/catalogue.yaml: unknown_types must be accept or refuse"},
		},
		"steps and files that cannot be": {`types:
  b:
    upcast:
      2:
        - rename: {x: y.z}
        - move: {x: x.y}
        - remove: [a..b]
  c: {schema: schemas/none.json}
`, []string{
			`event type "b": upcaster from version 2: rename: the new name "y.z" has a dot`,
			"x cannot go to x.y",
			`field "a..b" has an empty name`,
			`event type "c": schema: open conf/schemas/none.json: file does not exist`,
		}},
		"types that cannot be": {`types:
  a:
    intent: x
    schema: {type: objekt}
    version: -1
  d:
    version: 4
    upcast: {1: [], 3: []}
  e: {aliases: [a]}
`, []string{
			`event type "a": intent is "x"`,
			`event type "a": schema: /type `,
			`event type "a": version is -1`,
			`event type "d": upcaster from version 1 leads nowhere`,
			`event type "e": the name "a" belongs to "a" already`,
		}},
	} {
		t.Run("reports "+name, func(t *testing.T) {
			t.Parallel()
			_, err := load(test.source)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "event catalogue: ") {
					t.Errorf("lacks %q:\n%v", want, err)
				}
			}
		})
	}

	t.Run("says which file is missing", func(t *testing.T) {
		t.Parallel()
		if _, err := yamlfile.Load(fstest.MapFS{}, "catalogue.yaml"); err == nil ||
			err.Error() != "event catalogue: open catalogue.yaml: file does not exist" {
			t.Errorf("got %v", err)
		}
	})
}

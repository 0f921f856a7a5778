package journal

import (
	"strings"
	"testing"
	"testing/fstest"
)

func loadYAML(source string) (*Catalogue, error) {
	return LoadCatalogue(fstest.MapFS{
		"conf/catalogue.yaml":     {Data: []byte(source)},
		"conf/schemas/noted.json": {Data: []byte(`{"type":"object","required":["text"]}`)},
	}, "conf/catalogue.yaml")
}

func TestLoadCatalogue(t *testing.T) {
	t.Parallel()

	t.Run("reads every field", func(t *testing.T) {
		t.Parallel()
		catalogue, err := loadYAML(`
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
            "a\\.b": {c: [1, 2.5, true, null, text]}
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
		today, err := catalogue.Current(Event{Type: "born", Version: 1, Payload: []byte(`{"hp":5,"stats":{"x":1},"old":0}`)})
		want := `{"a.b":{"c":[1,2.5,true,null,"text"]},"last":"1","level":1,"stats":{"hit_points":5,"y":1}}`
		if err != nil || today.Type != "created" || today.Version != 2 || string(today.Payload) != want {
			t.Errorf("got %s version %d %s, %v; want %s", today.Type, today.Version, today.Payload, err, want)
		}
		for payload, field := range map[string]string{`{"level":1}`: "", `{"level":0}`: "payload", `{}`: "payload"} {
			e := Event{Type: "made", Payload: []byte(payload)}
			if err := catalogue.prepare(&e); (err == nil) != (field == "") || (err == nil && e.Intent != AuditOnly) {
				t.Errorf("%s: %v, intent %s", payload, err, e.Intent)
			}
		}
		for e, accepted := range map[*Event]bool{
			{Type: "noted"}: false,
			{Type: "noted", Payload: []byte(`{"text":""}`)}: true, {Type: "plain"}: true, {Type: "other"}: false,
		} {
			if err := catalogue.prepare(e); (err == nil) != accepted {
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
			catalogue, err := loadYAML(source)
			if err != nil {
				t.Fatal(err)
			}
			if err := catalogue.prepare(&Event{Type: "other"}); err != nil {
				t.Error(err)
			}
		})
	}

	for name, test := range map[string]struct {
		source string
		want   []string // each line of the message, from its start
	}{
		"a file that is no YAML": {"types:\n  a: [\n", []string{"2: "}},
		"a key given twice":      {"types:\n  a: {}\n  a: {}\n", []string{`3: mapping key "a" already defined`}},
		"a second document":      {"types: {}\n---\ntypes: {}\n", []string{"3: a second document begins here"}},
		"a list for a mapping":   {"- a\n", []string{"1: the catalogue must be a mapping"}},
		"many mistakes": {`unknown_types: perhaps
type: {}
types:
  a:
    version: two
    intent: [x]
    aliases: b
    schema: {type: objekt}
  b:
    upcast:
      one: []
      1: {}
      2:
        - rename: {x: y.z}
        - move: {x: 1}
        - remove: [a..b, 7]
        - default: x
  c: {schema: schemas/none.json, colour: red}
  d:
    version: 4
    upcast: {1: [], 3: []}
  e: {aliases: [a]}
  f: {version: 0}
`, []string{
			"1: unknown_types must be accept or refuse",
			`2: the catalogue has no field "type": it may have unknown_types, types`,
			"5: version must be a whole number from 1",
			"6: intent must be a string",
			"7: aliases must be a list",
			`8: event type "a": schema: /type `,
			`11: upcast is keyed by the version that a step starts from, not by "one"`,
			"12: 1 must be a list",
			`14: rename: the new name "y.z" has a dot`,
			"15: x must be a string",
			`16: remove: field "a..b" has an empty name`,
			"16: each item of remove must be a string",
			"17: default must be a mapping",
			"18: schema: open conf/schemas/none.json: file does not exist",
			`18: type "c" has no field "colour": it may have version, intent, aliases, upcast, schema`,
			`21: event type "d": upcaster from version 1 leads nowhere`,
			`22: event type "e": the name "a" belongs to "a" already`,
			"23: version must be a whole number from 1",
		}},
	} {
		t.Run("reports "+name, func(t *testing.T) {
			t.Parallel()
			_, err := loadYAML(test.source)
			if err == nil {
				t.Fatal("no error")
			}
			message, ours := strings.CutPrefix(err.Error(), "event catalogue: ")
			lines := strings.Split(message, "\n")
			if !ours || len(lines) != len(test.want) {
				t.Fatalf("%d lines, want %d:\n%v", len(lines), len(test.want), err)
			}
			missing := 0
			for _, want := range test.want {
				if !strings.Contains(message+"\n", "conf/catalogue.yaml:"+want) {
					t.Errorf("lacks %q", want)
					missing++
				}
			}
			if missing > 0 {
				t.Errorf("got\n%v", err)
			}
		})
	}

	t.Run("says which file is missing", func(t *testing.T) {
		t.Parallel()
		if _, err := LoadCatalogue(fstest.MapFS{}, "catalogue.yaml"); err == nil ||
			err.Error() != "event catalogue: open catalogue.yaml: file does not exist" {
			t.Errorf("got %v", err)
		}
	})
}

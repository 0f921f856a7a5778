package yamlfile_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/jsonschema"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// TestWhatIsWrittenLoadsAsTheSame writes each field that a file has, and loads it.
func TestWhatIsWrittenLoadsAsTheSame(t *testing.T) {
	t.Parallel()
	strict, err := catalogue.New(
		catalogue.EventType{
			Name: "made: \"so\"", Version: 3, Aliases: []string{"no", "1.0", " x "}, Intent: event.ReplayOnly,
			Upcast: map[int]catalogue.Upcaster{
				1: catalogue.Chain(catalogue.Rename("hp", "hit_points"), catalogue.Default("a.b", map[string]any{"n": 1e21, "t": "yes"})),
				2: catalogue.Chain(catalogue.Remove("old", "x.y"), catalogue.Move("hit_points", "stats.hp")),
			},
			Schema:  jsonschema.MustCompile(`{"properties": {"n": {"maximum": 9007199254740993, "pattern": "^a: #b\\n"}}, "type": "object"}`),
			Subject: []string{"owner.id"}, Personal: []string{"owner.name", "$tags.email"},
		},
		catalogue.EventType{Name: "plain"},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, given := range []*catalogue.Catalogue{strict, strict.RefuseUnknown(), nil} {
		file, err := yamlfile.Write(given)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := yamlfile.Load(fstest.MapFS{"c.yaml": {Data: file}}, "c.yaml")
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		if changes := given.Compare(loaded); len(changes) > 0 {
			t.Errorf("%+v\n%s", changes, file)
		}
		if again, err := yamlfile.Write(loaded); err != nil || !bytes.Equal(again, file) {
			t.Errorf("written again: %v\n%s\n%s", err, file, again)
		}
		e := event.Event{Type: "1.0", Version: 1, Payload: json.RawMessage(`{"hp": 12345678901234567890, "old": 1, "x": {"y": 2}}`)}
		want, _ := given.Current(e)
		if got, err := loaded.Current(e); err != nil || !bytes.Equal(got.Payload, want.Payload) {
			t.Errorf("got %s, %v, want %s", got.Payload, err, want.Payload)
		}
		if got, want := fmt.Sprint(loaded.Subjects(), loaded.Personal()), fmt.Sprint(given.Subjects(), given.Personal()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		_, refused := admit(t, loaded, event.Event{Type: "unknown"})
		if _, err := admit(t, given, event.Event{Type: "unknown"}); (err == nil) != (refused == nil) {
			t.Errorf("unknown types: %v and %v", refused, err)
		}
	}
}

//nolint:gochecknoglobals // flags are
var update = flag.Bool("update", false, "write testdata/catalogue.yaml")

// TestTheFileIsTheProgramsCatalogue is how a program keeps the file of its catalogue. docs/guides/catalogue.md shows
// it.
func TestTheFileIsTheProgramsCatalogue(t *testing.T) {
	t.Parallel()
	types, err := orders()
	if err != nil {
		t.Fatal(err)
	}
	want, err := yamlfile.Write(types)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		err = os.WriteFile("testdata/catalogue.yaml", want, 0o600)
	}
	if got, readErr := os.ReadFile("testdata/catalogue.yaml"); err != nil || readErr != nil || !bytes.Equal(got, want) {
		t.Errorf("the file is not the catalogue, run the test with -update: %v, %v", err, readErr)
	}
}

func TestCodeIsNotWritten(t *testing.T) {
	t.Parallel()
	types, err := catalogue.New(catalogue.EventType{Name: "made", Version: 2, Upcast: map[int]catalogue.Upcaster{
		1: catalogue.Convert(func(p json.RawMessage) (json.RawMessage, error) { return p, nil }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := yamlfile.Write(types); err == nil || !strings.Contains(err.Error(), `event type "made": `) ||
		!strings.Contains(err.Error(), "catalogue.Convert") {
		t.Errorf("got %v", err)
	}
}

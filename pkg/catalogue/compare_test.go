package catalogue_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/jsonschema"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestCompareTellsWhoReadsWhat(t *testing.T) {
	t.Parallel()
	step := map[int]catalogue.Upcaster{1: catalogue.Remove("a"), 2: catalogue.Remove("b")}
	third := catalogue.EventType{Name: "x", Version: 3, Upcast: step}
	for name, tt := range map[string]struct {
		older, newer []catalogue.EventType
		want         string
	}{
		"the same":         {[]catalogue.EventType{third}, []catalogue.EventType{third}, ""},
		"a new type":       {nil, []catalogue.EventType{third}, "x full it is new"},
		"a type gone":      {[]catalogue.EventType{{Name: "x"}}, nil, "x full it is gone: its events are read as stored, and new ones unchecked"},
		"its steps gone":   {[]catalogue.EventType{third}, nil, "x forward it is gone: its events of older versions and names are read as stored"},
		"its alias gone":   {[]catalogue.EventType{{Name: "x", Aliases: []string{"z"}}}, nil, "x forward it is gone: its events of older versions and names are read as stored"},
		"a version more":   {[]catalogue.EventType{{Name: "x"}}, []catalogue.EventType{third}, "x backward it reads versions 1 to 3, and read 1 to 1"},
		"a version less":   {[]catalogue.EventType{third}, []catalogue.EventType{{Name: "x"}}, "x forward it reads versions 1 to 1, and read 1 to 3"},
		"a step less":      {[]catalogue.EventType{third}, []catalogue.EventType{{Name: "x", Version: 3}}, "x forward it reads versions 3 to 3, and read 1 to 3"},
		"a jump":           {[]catalogue.EventType{{Name: "x"}}, []catalogue.EventType{{Name: "x", Version: 3}}, "x none it reads versions 3 to 3, and read 1 to 1"},
		"another name":     {[]catalogue.EventType{{Name: "x"}}, []catalogue.EventType{{Name: "y", Aliases: []string{"x"}}}, "y backward its name was x"},
		"an alias less":    {[]catalogue.EventType{{Name: "x", Aliases: []string{"z"}}}, []catalogue.EventType{{Name: "x"}}, "x forward the name z no longer leads to it: its events under that name are not found"},
		"another intent":   {[]catalogue.EventType{{Name: "x"}}, []catalogue.EventType{{Name: "x", Intent: event.AuditOnly}}, "x full new events have the intent audit_only, and had projection_and_replay"},
		"a schema":         {[]catalogue.EventType{{Name: "x"}}, []catalogue.EventType{{Name: "x", Schema: jsonschema.MustCompile(`{}`)}}, "x depends the schema of version 1 has changed"},
		"a schema printed": {[]catalogue.EventType{{Name: "x", Schema: jsonschema.MustCompile(`{ }`)}}, []catalogue.EventType{{Name: "x", Schema: jsonschema.MustCompile(`{}`)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			older, newer := catalogueFor(t, tt.older...), catalogueFor(t, tt.newer...)
			var got []string
			for _, c := range older.Compare(newer) {
				got = append(got, fmt.Sprint(c.Type, " ", c.Compatibility, " ", c.Detail))
			}
			if text := strings.Join(got, "\n"); text != tt.want {
				t.Errorf("got\n%s\nwant\n%s", text, tt.want)
			}
		})
	}
	var none *catalogue.Catalogue
	if changes := none.Compare(catalogueFor(t, third)); len(changes) != 1 {
		t.Errorf("no catalogue, and one: %v", changes)
	}
}

func catalogueFor(t *testing.T, types ...catalogue.EventType) *catalogue.Catalogue {
	t.Helper()
	c, err := catalogue.New(types...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestACatalogueIsCheckedAgainstTheJournal(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for i := range 90 {
			for _, e := range []event.Event{
				{Type: "made", Payload: json.RawMessage(`{"hp": 7, "secret": "s3cret"}`)},
				{Type: "stray"},
				{Type: "made", Version: 3},
				{Type: "born", Version: 2, Payload: json.RawMessage(`{"hit_points": "many"}`)},
				{Type: "moved"},
				{Type: "moved"},
			} {
				if _, err := (journal.Journal{}).Append(t.Context(), tx, fmt.Sprint("campaign ", i%7), journal.Any, e); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	c := catalogueFor(t, catalogue.EventType{
		Name: "made", Aliases: []string{"born"}, Version: 2, Upcast: map[int]catalogue.Upcaster{1: catalogue.Rename("hp", "hit_points")},
		Schema: jsonschema.MustCompile(`{"properties": {"hit_points": {"type": "integer"}}, "required": ["hit_points"]}`),
	}, catalogue.EventType{Name: "moved"}, catalogue.EventType{Name: "never"})
	for n, whole := range map[int64]bool{0: true, 100_000: true, 400: false, 1: false} {
		r, err := c.Check(t.Context(), pool, n)
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 && r.Events > 200 || n == 400 && (r.Events < 300 || r.Events > 400) || whole && r.Events != 540 || r.Whole != whole {
			t.Errorf("of %d events it looked at %d, all: %v", n, r.Events, r.Whole)
		}
		misfits := int64(len(r.Misfits)) + r.NotShown
		if strings.Join(r.Unused, " ") != "never" || whole && (r.Unknown["stray"] != 90 || misfits != 180) {
			t.Errorf("of %d events: unused %q, unknown %v, %d misfits", n, r.Unused, r.Unknown, misfits)
		}
		if len(r.Misfits) < 2 || len(r.Misfits) > 100 {
			t.Fatalf("%d misfits are shown", len(r.Misfits))
		}
		text := fmt.Sprintf("%+v", r.Misfits[:2])
		if !strings.Contains(text, "Seq:3 Type:made Version:3 Detail:version is 3, the catalogue knows 1 … 2") ||
			!strings.Contains(text, "Seq:4 Type:born Version:2 Detail:payload") || strings.Contains(text, "many") {
			t.Errorf("misfits: %s", text)
		}
	}
}

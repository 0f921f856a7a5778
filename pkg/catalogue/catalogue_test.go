package catalogue

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/internal/admission"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/catalogue/jsonschema"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// characterCatalogue has one type with aliases, three versions and a schema, and one type with an
// intent.
func characterCatalogue(t testing.TB) *Catalogue {
	t.Helper()
	c, err := New(
		EventType{
			Name: "character_created", Aliases: []string{"char_created", "pc_created"}, Version: 3,
			Upcast: map[int]Upcaster{1: Rename("hp", "hit_points"), 2: Move("hit_points", "stats.hit_points")},
			Schema: jsonschema.MustCompile(
				`{"type":"object","required":["stats"],"properties":{"secret":{"enum":["a","b"]},"email":{"format":"email"}}}`),
		},
		EventType{Name: "dice_rolled", Intent: event.ReplayOnly},
		EventType{Name: "late", Version: 4, Upcast: map[int]Upcaster{3: Remove("old")}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	catalogue := characterCatalogue(t)
	for name, test := range map[string]struct {
		catalogue   *Catalogue
		event, want event.Event
		refused     string // the field at fault; "": the event is good
	}{
		"fills in the version and the intent": {
			catalogue,
			event.Event{Type: "dice_rolled"},
			event.Event{Type: "dice_rolled", Version: 1, Intent: event.ReplayOnly},
			"",
		},
		"keeps the intent that the event has": {
			catalogue,
			event.Event{Type: "dice_rolled", Intent: event.AuditOnly},
			event.Event{Type: "dice_rolled", Version: 1, Intent: event.AuditOnly},
			"",
		},
		"stores an alias under the current name": {
			catalogue,
			event.Event{Type: "pc_created", Payload: []byte(`{"stats":{}}`)},
			event.Event{Type: "character_created", Version: 3, Intent: event.ProjectionAndReplay, Payload: []byte(`{"stats":{}}`)},
			"",
		},
		"stores an older version as it is": {
			catalogue,
			event.Event{Type: "char_created", Version: 1, Payload: []byte(`{"hp":1}`)},
			event.Event{Type: "character_created", Version: 1, Intent: event.ProjectionAndReplay, Payload: []byte(`{"hp":1}`)},
			"",
		},
		"accepts an unknown type": {
			catalogue,
			event.Event{Type: "other", Version: 7},
			event.Event{Type: "other", Version: 7, Intent: event.ProjectionAndReplay},
			"",
		},
		"accepts all when there is no catalogue": {
			nil,
			event.Event{Type: "other"},
			event.Event{Type: "other", Version: 1, Intent: event.ProjectionAndReplay},
			"",
		},
		"refuses an unknown type if told to": {
			catalogue.RefuseUnknown(),
			event.Event{Type: "other"},
			event.Event{},
			"type",
		},
		"refuses all if told to, knowing none": {
			(*Catalogue)(nil).RefuseUnknown(),
			event.Event{Type: "other"},
			event.Event{},
			"type",
		},
		"refuses a newer version": {
			catalogue,
			event.Event{Type: "dice_rolled", Version: 2},
			event.Event{},
			"version",
		},
		"refuses a version it cannot read": {catalogue, event.Event{Type: "late", Version: 2}, event.Event{}, "version"},
		"refuses what breaks the schema": {
			catalogue,
			event.Event{Type: "character_created", Payload: []byte(`{"hit_points":1}`)},
			event.Event{},
			"payload",
		},
		"refuses an absent payload that breaks the schema": {catalogue, event.Event{Type: "character_created"}, event.Event{}, "payload"},
		"refuses an older version that breaks the schema": {
			catalogue,
			event.Event{Type: "character_created", Version: 1, Payload: []byte(`{"name":"x"}`)},
			event.Event{},
			"payload",
		},
		"refuses what an upcaster cannot take": {
			catalogue,
			event.Event{Type: "character_created", Version: 1, Payload: []byte(`{"hp":1,"hit_points":2}`)},
			event.Event{},
			"payload",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := test.event
			err := test.catalogue.prepare(&e)
			if test.refused != "" {
				var fault *admission.Fault
				if !errors.As(err, &fault) || fault.Field != test.refused {
					t.Fatalf("got %#v, want a refusal of %s", err, test.refused)
				}
				return
			}
			if err != nil || e.Type != test.want.Type || e.Version != test.want.Version || e.Intent != test.want.Intent ||
				string(e.Payload) != string(test.want.Payload) {
				t.Errorf("got %+v, %v", e, err)
			}
		})
	}
}

func TestSchemaErrorsNeverQuoteThePayload(t *testing.T) {
	t.Parallel()
	e := event.Event{Type: "character_created", Payload: []byte(`{"secret":"hunter2","email":"hunter2","stats":1}`)}
	err := characterCatalogue(t).prepare(&e)
	if err == nil || strings.Contains(err.Error(), "hunter2") ||
		!strings.Contains(err.Error(), "/email breaks the rule format") || !strings.Contains(err.Error(), "/secret") {
		t.Errorf("got %v", err)
	}
}

func TestCurrent(t *testing.T) {
	t.Parallel()
	catalogue := characterCatalogue(t)
	for name, test := range map[string]struct {
		event, want event.Event
	}{
		"runs the upcasters from the event's version on": {event.Event{
			Type: "char_created", Version: 1,
			Payload: []byte(`{"hp":5}`),
		}, event.Event{
			Type: "character_created", Version: 3,
			Payload: []byte(`{"stats":{"hit_points":5}}`),
		}},
		"starts in the middle": {event.Event{
			Type: "character_created", Version: 2,
			Payload: []byte(`{"hit_points":5}`),
		}, event.Event{
			Type: "character_created", Version: 3,
			Payload: []byte(`{"stats":{"hit_points":5}}`),
		}},
		"resolves an alias of the current version": {
			event.Event{Type: "pc_created", Version: 3, Payload: []byte(`{"x":1}`)},
			event.Event{Type: "character_created", Version: 3, Payload: []byte(`{"x":1}`)},
		},
		"leaves a current event alone": {event.Event{
			Type: "dice_rolled", Version: 1,
			Payload: []byte(`{"x":1}`),
		}, event.Event{Type: "dice_rolled", Version: 1, Payload: []byte(`{"x":1}`)}},
		"leaves an unknown type alone": {
			event.Event{Type: "other", Version: 9, Payload: []byte(`{"x":1}`)},
			event.Event{Type: "other", Version: 9, Payload: []byte(`{"x":1}`)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := string(test.event.Payload)
			for _, c := range []*Catalogue{catalogue, catalogue.RefuseUnknown()} {
				got, err := c.Current(test.event)
				if err != nil || got.Type != test.want.Type || got.Version != test.want.Version ||
					string(got.Payload) != string(test.want.Payload) {
					t.Errorf("got %+v %s, %v", got, got.Payload, err)
				}
				if again, err := c.Current(got); err != nil || string(again.Payload) != string(got.Payload) ||
					again.Version != got.Version {
					t.Errorf("a second time: %+v, %v", again, err)
				}
			}
			if string(test.event.Payload) != before {
				t.Errorf("the event's own payload became %s", test.event.Payload)
			}
		})
	}

	t.Run("forgets what was decoded from the older payload", func(t *testing.T) {
		t.Parallel()
		old := event.Event{Type: "character_created", Version: 2, Payload: []byte(`{"hit_points":5}`)}
		feed.ForgetDecoded(&old)
		type payload struct {
			Stats struct {
				HitPoints int `json:"hit_points"`
			}
		}
		if _, err := event.Decode[payload](old); err != nil {
			t.Fatal(err)
		}
		today, err := catalogue.Current(old)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := event.Decode[payload](today); err != nil || p.Stats.HitPoints != 5 {
			t.Errorf("got %+v, %v", p, err)
		}
	})

	for name, test := range map[string]struct {
		event   event.Event
		message string
	}{
		"a version newer than the catalogue": {
			event.Event{Type: "dice_rolled", Version: 2, CampaignID: "c1", Seq: 8},
			`event 8 of campaign "c1" is "dice_rolled" version 2, the catalogue reads 1 … 1: deploy`,
		},
		"a version without an upcaster": {
			event.Event{Type: "late", Version: 2, CampaignID: "c1", Seq: 8},
			`event 8 of campaign "c1" is "late" version 2, the catalogue reads 3 … 4: add`,
		},
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			t.Parallel()
			if _, err := catalogue.Current(test.event); !errors.Is(err, ErrUnknownVersion) ||
				!strings.HasPrefix(err.Error(), test.message) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCurrentIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	catalogue := characterCatalogue(t)
	shared := event.Event{Type: "char_created", Version: 1, Payload: []byte(`{"hp":5}`)}
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 100 {
				if e, err := catalogue.Current(shared); err != nil || string(e.Payload) != `{"stats":{"hit_points":5}}` {
					t.Errorf("got %s, %v", e.Payload, err)
					return
				}
			}
		})
	}
	running.Wait()
}

func TestNames(t *testing.T) {
	t.Parallel()
	catalogue := characterCatalogue(t)
	all := []string{"character_created", "char_created", "pc_created"}
	for _, name := range all {
		if got := catalogue.Names(name); !slices.Equal(got, all) {
			t.Errorf("Names(%q) = %q", name, got)
		}
	}
	catalogue.Names("char_created")[0] = "changed by the caller"
	if got := catalogue.Names("character_created")[0]; got != "character_created" {
		t.Errorf("a caller changed the catalogue: %q", got)
	}
	for _, c := range []*Catalogue{nil, catalogue} {
		if got := c.Names("other"); !slices.Equal(got, []string{"other"}) {
			t.Errorf("Names(other) = %q", got)
		}
	}
}

func TestNewReportsAllMistakesTogether(t *testing.T) {
	t.Parallel()
	_, err := New(
		EventType{Name: ""},
		EventType{Name: "a", Aliases: []string{"b", "b"}, Version: -1, Intent: "sometimes"},
		EventType{Name: "b"},
		EventType{Name: "c", Version: 3, Upcast: map[int]Upcaster{0: Remove("x"), 1: Remove("x"), 2: {}, 3: Remove("x")}},
		EventType{Name: "d", Version: 6, Upcast: map[int]Upcaster{
			1: Remove(""), 2: Default("a..b", 1), 3: Rename("a", "b.c"), 4: Chain(Move("a", "a.b"), Default("a", func() {}), Upcaster{}),
			5: Convert(nil),
		}},
	)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`event type "": a name is empty`,
		`event type "a": the name "b" belongs to "a" already`,
		`event type "a": version is -1`,
		`event type "a": intent is "sometimes"`,
		`event type "b": the name "b" belongs to "a" already`,
		`event type "c": upcaster from version 0: upcasters start`,
		`event type "c": upcaster from version 1 leads nowhere`,
		`event type "c": upcaster from version 2 is empty`,
		`event type "c": upcaster from version 3: upcasters start`,
		`event type "d": upcaster from version 1: field "" has an empty name`,
		`event type "d": upcaster from version 2: field "a..b" has an empty name`,
		`event type "d": upcaster from version 3: rename: the new name "b.c" has a dot`,
		"event type \"d\": upcaster from version 4: a cannot go to a.b: a field cannot become itself or a part of itself\n" +
			"the value of a: json: unsupported type: func()\nan element of the chain is empty",
		`event type "d": upcaster from version 5: convert: there is no function`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q", want)
		}
	}
	if n := strings.Count(err.Error(), "event type "); n != 14 || t.Failed() {
		t.Errorf("%d mistakes:\n%v", n, err)
	}
}

func TestFormerNamesOfFieldsThatStepsMoveAreKnown(t *testing.T) {
	t.Parallel()
	c, err := New(EventType{
		Name: "moved", Version: 4, Personal: []string{"who.name"},
		Upcast: map[int]Upcaster{
			1: Chain(Rename("n", "name"), Default("level", 1)), 2: Move("name", "who.name"),
			3: Convert(func(payload json.RawMessage) (json.RawMessage, error) { return payload, nil }),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Personal()["moved"]; !slices.Equal(got, []string{"who.name", "name", "n"}) {
		t.Errorf("the fields are %q", got)
	}
}

// An event has the same meaning under each version and name it was stored with.
func TestCurrentGivesOneShapeForAllVersions(t *testing.T) {
	t.Parallel()
	catalogue := characterCatalogue(t)
	rapid.Check(t, func(t *rapid.T) {
		name, _ := json.Marshal(strings.ReplaceAll(rapid.String().Draw(t, "name"), "\x00", ""))
		points, _ := json.Marshal(rapid.Float64().Draw(t, "points"))
		shapes := map[int]string{
			1: `{"hp":` + string(points) + `,"name":` + string(name) + `}`,
			2: `{"hit_points":` + string(points) + `,"name":` + string(name) + `}`,
			3: `{"name":` + string(name) + `,"stats":{"hit_points":` + string(points) + `}}`,
		}
		version := rapid.IntRange(1, 3).Draw(t, "version")
		e := event.Event{
			Type: rapid.SampledFrom(catalogue.Names("character_created")).Draw(t, "type"), Version: version,
			Payload: []byte(shapes[version]),
		}
		today, err := catalogue.Current(e)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if json.Unmarshal(today.Payload, &got) != nil || json.Unmarshal([]byte(shapes[3]), &want) != nil ||
			!jsonEqual(got, want) {
			t.Fatalf("version %d became %s, want %s", version, today.Payload, shapes[3])
		}
	})
}

func jsonEqual(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func BenchmarkCurrent(b *testing.B) {
	catalogue := characterCatalogue(b)
	document := []byte(`{"text":"` + strings.Repeat("x", 1000) + `"}`)
	for name, e := range map[string]event.Event{
		"of an event that is current": {Type: "dice_rolled", Version: 1, Payload: document},
		"of an unknown type":          {Type: "other", Version: 1, Payload: document},
		"two upcasters": {
			Type: "character_created", Version: 1,
			Payload: []byte(`{"name":"Åsa","hp":12,"level":4}`),
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := catalogue.Current(e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

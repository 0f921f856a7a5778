package catalogue

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/event"
)

func TestUpcasters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		upcast        Upcaster
		payload, want string
	}{
		"rename renames a field": {
			Rename("hp", "hit_points"), `{"a":1,"hp":2}`,
			`{"a":1,"hit_points":2}`,
		},
		"rename keeps a nested field where it is": {
			Rename("stats.hp", "hit_points"), `{"stats":{"hp":2}}`,
			`{"stats":{"hit_points":2}}`,
		},
		"rename leaves a payload without the field": {
			Rename("stats.hp", "hit_points"), `{"stats":null}`,
			`{"stats":null}`,
		},
		"rename moves null as well": {Rename("hp", "hit_points"), `{"hp":null}`, `{"hit_points":null}`},
		"move creates the objects on the way": {
			Move("hp", "stats.now.hp"), `{"hp":2}`,
			`{"stats":{"now":{"hp":2}}}`,
		},
		"move adds to objects that are there": {
			Move("hp", "stats.hp"), `{"hp":2,"stats":{"x":1}}`,
			`{"stats":{"hp":2,"x":1}}`,
		},
		"move takes a field out of an object":   {Move("stats.hp", "hp"), `{"stats":{"hp":2}}`, `{"hp":2,"stats":{}}`},
		"default sets what is absent":           {Default("stats.level", 1), `{}`, `{"stats":{"level":1}}`},
		"default keeps what is there, null too": {Default("level", 1), `{"level":null}`, `{"level":null}`},
		"default takes any value":               {Default("tags", []string{"<a>"}), `{}`, `{"tags":["<a>"]}`},
		"remove removes fields, absent ones too": {
			Remove("a", "b.c", "x.y"), `{"a":1,"b":{"c":2,"d":3}}`,
			`{"b":{"d":3}}`,
		},
		"a chain runs in order": {
			Chain(Rename("a", "b"), Rename("b", "c"), Default("b", 0)),
			`{"a":1}`, `{"b":0,"c":1}`,
		},
		"a chain has steps before and behind code": {
			Chain(Rename("a", "b"), Convert(func(payload json.RawMessage) (json.RawMessage, error) {
				return append([]byte(`{"c":`), append(payload, '}')...), nil
			}), Default("d", 1), Remove("e")),
			`{"a":1}`, `{"c":{"b":1},"d":1}`,
		},
		"a chain of nothing changes nothing": {Chain(), `{"a": 1}`, `{"a": 1}`},
		"numbers and text keep every digit and letter": {
			Remove("x"), `{"n":12345678901234567890.12300,"s":"<é&\u2028>"}`,
			`{"n":12345678901234567890.12300,"s":"<é&\u2028>"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payload := json.RawMessage(test.payload)
			got, err := test.upcast.upcast(payload)
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v; want %s", got, err, test.want)
			}
			if string(payload) != test.payload {
				t.Errorf("changed its input to %s", payload)
			}
		})
	}

	for name, test := range map[string]struct {
		upcast        Upcaster
		payload, want string
	}{
		"rename onto a field that is there": {
			Rename("a", "b"), `{"a":1,"b":2}`,
			"move a to b: the payload has both",
		},
		"move onto a field that is there": {
			Move("a", "b.c"), `{"a":1,"b":{"c":2}}`,
			"move a to b.c: the payload has both",
		},
		"move through something that is no object": {
			Move("a", "b.c"), `{"a":1,"b":2}`,
			"b on the way to b.c: it is not a JSON object",
		},
		"default inside null":         {Default("a.b", 1), `{"a":null}`, "a on the way to a.b: it is null"},
		"a payload that is no object": {Remove("a"), `[]`, "it is not a JSON object"},
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			t.Parallel()
			if got, err := test.upcast.upcast([]byte(test.payload)); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %s, %v; want %s", got, err, test.want)
			}
		})
	}
}

func TestUpcastersThatMisbehave(t *testing.T) {
	t.Parallel()
	errBroken := errors.New("broken")
	for name, test := range map[string]struct {
		upcast Upcaster
		want   string
	}{
		"return an error": {
			Convert(func(json.RawMessage) (json.RawMessage, error) { return nil, errBroken }),
			"upcast t from version 1 to 2: broken",
		},
		"panic": {
			Convert(func(json.RawMessage) (json.RawMessage, error) { panic("out of range") }),
			"upcast t from version 1 to 2: the upcaster panicked: out of range",
		},
		"return no object": {
			Convert(func(json.RawMessage) (json.RawMessage, error) { return []byte(`[]`), nil }),
			"upcast t from version 1 to 2: the upcaster's result must be a JSON object",
		},
		"return half of JSON": {
			Convert(func(json.RawMessage) (json.RawMessage, error) { return []byte(`{"a":`), nil }),
			"upcast t from version 1 to 2: the upcaster's result is not valid JSON",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			catalogue, err := New(EventType{Name: "t", Version: 2, Upcast: map[int]Upcaster{1: test.upcast}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = catalogue.Current(event.Event{Type: "t", Version: 1, CampaignID: "c1", Seq: 3, Payload: []byte(`{}`)})
			if err == nil || !strings.HasPrefix(err.Error(), `event 3 of campaign "c1": `+test.want) {
				t.Errorf("got %v", err)
			}
			if name == "return an error" && !errors.Is(err, errBroken) {
				t.Errorf("the upcaster's own error is lost: %v", err)
			}
		})
	}
}

package journal

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// admit returns the refusal of an event of a campaign, at an index of an append.
func admit(campaign string, index int, e *event.Event) error {
	return refused(validate(campaign, e), campaign, index, e)
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		campaign string
		event    event.Event
		field    string
		says     string // part of the message; "": the event is good
	}{
		"an event with a type only": {"c1", event.Event{Type: "noted"}, "", ""},
		"an event with everything": {
			"c1",
			event.Event{
				Type: "noted", Version: 2, Intent: event.AuditOnly, AggregateType: "character", AggregateID: "7", Actor: "Åsa",
				Tags: []string{"a", "b=c"}, Payload: []byte(` {"a":1}`), Metadata: []byte(`{}`),
			},
			"", "",
		},
		"a NUL in the campaign id": {
			"c\x001",
			event.Event{Type: "noted"},
			"campaign_id",
			`"c\x001" holds a NUL character`,
		},
		"a type that is not UTF-8": {"c1", event.Event{Type: "no\xffted"}, "type", `"no\xffted" is not valid UTF-8`},
		"a surrogate in UTF-8":     {"c1", event.Event{Type: "noted", Actor: "\xed\xa0\x80"}, "actor", "is not valid UTF-8"},
		"a NUL in the aggregate id": {
			"c1",
			event.Event{Type: "noted", AggregateID: "\x00"},
			"aggregate_id",
			"holds a NUL character",
		},
		"a tag that is not UTF-8": {"c1", event.Event{Type: "noted", Tags: []string{"a", "\xff"}}, "tags[1]", "is not valid UTF-8"},
		"a payload that is no object": {
			"c1",
			event.Event{Type: "noted", Payload: []byte(` [1]`)},
			"payload",
			"must be a JSON object",
		},
		"a payload that is a JSON null": {"c1", event.Event{Type: "noted", Payload: []byte(`null`)}, "payload", "JSON object"},
		"a payload that is no JSON": {
			"c1",
			event.Event{Type: "noted", Payload: []byte(`{"a":}`)},
			"payload",
			"is not valid JSON, or nested too deep, at byte 6",
		},
		"a payload that ends the event": {
			"c1",
			event.Event{Type: "noted", Payload: []byte(`{}},{"type":"other"`)},
			"payload",
			"is not valid JSON",
		},
		"a payload that Go's own decoder cannot follow": {
			"c1",
			event.Event{Type: "noted", Payload: []byte(strings.Repeat(`{"a":`, 30_000) + "1" + strings.Repeat("}", 30_000))},
			"payload",
			"nested too deep",
		},
		"metadata that goes on after its end": {
			"c1",
			event.Event{Type: "noted", Metadata: []byte(`{} {}`)},
			"metadata",
			"is not valid JSON",
		},
		"a payload of nothing but white space":  {"c1", event.Event{Type: "noted", Payload: []byte(` `)}, "payload", "is not valid JSON"},
		"a payload of no bytes stands for none": {"c1", event.Event{Type: "noted", Payload: []byte{}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := admit(test.campaign, 3, &test.event)
			if test.says == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			var invalid *InvalidEventError
			if !errors.As(err, &invalid) {
				t.Fatalf("got %v", err)
			}
			if invalid.Campaign != test.campaign || invalid.Index != 3 || invalid.Type != test.event.Type ||
				invalid.Field != test.field || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %#v\nwant field %s, saying %s", invalid, test.field, test.says)
			}
			if len(err.Error()) > 400 {
				t.Errorf("%d bytes long: %v", len(err.Error()), err)
			}
		})
	}
}

func TestInvalidEventErrorNamesTheEvent(t *testing.T) {
	t.Parallel()
	err := admit(strings.Repeat("é", 100), 7,
		&event.Event{Type: "noted", Payload: []byte(`{"password":"hunter2",}`)})
	want := `events[7] ("noted") of campaign "` + strings.Repeat("é", 24) +
		`"… (200 bytes): payload is not valid JSON, or nested too deep, at byte 23`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestWhatIsAcceptedIsAJSONObjectByItself(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		document := rapid.OneOf(
			rapid.SliceOf(rapid.SampledFrom([]byte(`{}[],:"\ e1-`))),
			rapid.Map(rapid.StringMatching(`\{("[a-z]{0,3}":(1|null|"x"|\{\}|\[\]),?){0,3}\}? ?\}?`), func(s string) []byte {
				return []byte(s)
			}),
		).Draw(t, "document")
		var object map[string]json.RawMessage
		err := json.Unmarshal(document, &object)
		if good := err == nil && object != nil; len(document) > 0 && (text.CheckObject(document) == "") != good {
			t.Fatalf("%q: %q, and encoding/json says %v", document, text.CheckObject(document), err)
		}
	})
}

func TestShortenedIsReadableText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "s"))
		short := text.Shortened(s)
		if len(short) > 48*4+32 || strings.ContainsRune(short, 0) || strings.ToValidUTF8(short, "") != short {
			t.Fatalf("%q became %q", s, short)
		}
	})
}

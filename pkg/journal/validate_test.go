package journal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	for name, test := range map[string]struct {
		campaign string
		event    Event
		field    string
		says     string // part of the message; "": the event is good
	}{
		"an event with a type only": {"c1", Event{Type: "noted"}, "", ""},
		"an event with everything": {
			"c1",
			Event{
				Type: "noted", Version: 2, Intent: AuditOnly, AggregateType: "character", AggregateID: "7", Actor: "Åsa",
				Tags: []string{"a", "b=c"}, Payload: []byte(`{"a":1}`), Metadata: []byte(`{}`), OccurredAt: time.Now(),
			},
			"", "",
		},
		"an empty campaign id": {"", Event{Type: "noted"}, "campaign_id", "is empty"},
		"a long campaign id": {
			long,
			Event{Type: "noted"},
			"campaign_id",
			"is longer than 256 bytes (Limits.CampaignIDBytes)",
		},
		"a NUL in the campaign id": {
			"c\x001",
			Event{Type: "noted"},
			"campaign_id",
			`"c\x001" holds a NUL character`,
		},
		"no type":                  {"c1", Event{}, "type", "is empty"},
		"a long type":              {"c1", Event{Type: long}, "type", "is longer than 256 bytes: use"},
		"a type that is not UTF-8": {"c1", Event{Type: "no\xffted"}, "type", `"no\xffted" is not valid UTF-8`},
		"a surrogate in UTF-8": {
			"c1",
			Event{Type: "noted", Actor: "\xed\xa0\x80"},
			"actor",
			"is not valid UTF-8",
		},
		"a NUL in the aggregate id": {
			"c1",
			Event{Type: "noted", AggregateID: "\x00"},
			"aggregate_id",
			"holds a NUL character",
		},
		"a long aggregate type": {
			"c1",
			Event{Type: "noted", AggregateType: long},
			"aggregate_type",
			"is longer than 256 bytes",
		},
		"a negative version":                  {"c1", Event{Type: "noted", Version: -1}, "version", "is -1"},
		"a version that Postgres cannot hold": {"c1", Event{Type: "noted", Version: 1 << 31}, "version", "is 2147483648"},
		"an unknown intent": {
			"c1",
			Event{Type: "noted", Intent: "maybe"},
			"intent",
			`is "maybe": it must be projection_and_replay, replay_only or audit_only`,
		},
		"a time that JSON cannot hold": {
			"c1",
			Event{Type: "noted", OccurredAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
			"occurred_at",
			"is in the year 10000",
		},
		"an empty tag": {"c1", Event{Type: "noted", Tags: []string{"a", ""}}, "tags[1]", "is empty"},
		"a tag given twice": {
			"c1",
			Event{Type: "noted", Tags: []string{"a", "b", "a"}},
			"tags[2]",
			`"a" is there twice`,
		},
		"a long tag": {
			"c1",
			Event{Type: "noted", Tags: []string{long}},
			"tags[0]",
			"is longer than 256 bytes (Limits.TagBytes)",
		},
		"too many tags": {
			"c1",
			Event{Type: "noted", Tags: make([]string, 65)},
			"tags",
			"are 65, the limit is 64 (Limits.Tags)",
		},
		"a payload that is no object": {
			"c1",
			Event{Type: "noted", Payload: []byte(`[1]`)},
			"payload",
			"is an array: it must be a JSON object",
		},
		"a payload that is no JSON": {
			"c1",
			Event{Type: "noted", Payload: []byte(`{"a":}`)},
			"payload",
			"is not valid JSON: expected a value at byte 5",
		},
		"a payload that is too deep": {
			"c1",
			Event{Type: "noted", Payload: []byte(`{"a":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`)},
			"payload", "is nested deeper than 128 levels",
		},
		"a payload that is too long": {
			"c1",
			Event{Type: "noted", Payload: []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)},
			"payload",
			"is 1048584 bytes long, the limit is 1048576 (Limits.PayloadBytes)",
		},
		"a payload that is too long in jsonb": {
			"c1",
			Event{Type: "noted", Payload: []byte(`{"a":[` + strings.Repeat("1e100000,", 11) + `1]}`)},
			"payload",
			"as Postgres prints it",
		},
		"metadata that is too long": {
			"c1",
			Event{Type: "noted", Metadata: []byte(`{"a":"` + strings.Repeat("x", 1<<16) + `"}`)},
			"metadata",
			"the limit is 65536 (Limits.MetadataBytes)",
		},
		"metadata with a NUL escape": {
			"c1",
			Event{Type: "noted", Metadata: []byte(`{"a":"\u0000"}`)},
			"metadata",
			`has the escape \u0000 at byte 6`,
		},
		"metadata with half a surrogate pair": {
			"c1",
			Event{Type: "noted", Metadata: []byte(`{"a":"\ud83d"}`)},
			"metadata",
			"has half of a surrogate pair at byte 6",
		},
		"a payload with a number beyond jsonb": {
			"c1",
			Event{Type: "noted", Payload: []byte(`{"a":1e400000}`)},
			"payload",
			"has a number at byte 5 with more digits than Postgres can hold",
		},
		"a payload that is a JSON null": {"c1", Event{Type: "noted", Payload: []byte(`null`)}, "payload", "is null"},
		"a payload of nothing but white space": {
			"c1",
			Event{Type: "noted", Payload: []byte(` `)},
			"payload",
			"is not valid JSON",
		},
		"a payload of no bytes stands for none": {"c1", Event{Type: "noted", Payload: []byte{}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := validate(test.campaign, 3, &test.event, Limits{}.withDefaults())
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
	err := validate(strings.Repeat("é", 100), 7, &Event{Type: "noted", Payload: []byte(`{"password":"hunter2",}`)},
		Limits{}.withDefaults())
	want := `events[7] ("noted") of campaign "` + strings.Repeat("é",
		24) + `"… (200 bytes): payload is not valid JSON: expected a key in quotes at byte 22`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestValidateCall(t *testing.T) {
	t.Parallel()
	limits := Limits{EventsPerCall: 3, CallBytes: 20}.withDefaults()
	events := func(n int, payload string) []Event {
		all := make([]Event, n)
		for i := range all {
			all[i].Payload = []byte(payload)
		}
		return all
	}
	for name, test := range map[string]struct {
		batches []Batch
		refused string // the campaign that is one too many
	}{
		"accepts what is at the limits": {[]Batch{
			{CampaignID: "a", Events: events(1, "{}")},
			{CampaignID: "b", Events: events(2, `{"a":123}`)},
		}, ""},
		"refuses too many events in one campaign": {[]Batch{{CampaignID: "a", Events: events(4, "{}")}}, "a"},
		"refuses too many events in all campaigns": {[]Batch{
			{CampaignID: "a", Events: events(2, "{}")},
			{CampaignID: "b", Events: events(2, "{}")},
		}, "b"},
		"refuses too many bytes though each event is small": {[]Batch{{CampaignID: "a", Events: events(3, `{"a":12}`)}}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := validateCall(limits, test.batches...)
			var invalid *InvalidEventError
			if test.refused == "" && err == nil {
				return
			}
			if !errors.As(err, &invalid) || invalid.Campaign != test.refused || invalid.Index != -1 ||
				!strings.HasPrefix(err.Error(), fmt.Sprintf("append to campaign %q: events ", test.refused)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	if got := (Limits{}).withDefaults(); got.check() != nil || got.PayloadBytes != 1<<20 || got.EventsPerCall != 10_000 ||
		got.CampaignIDBytes != 256 {
		t.Errorf("defaults: %+v, %v", got, got.check())
	}
	if got := (Limits{Tags: 3}).withDefaults(); got.Tags != 3 {
		t.Errorf("Tags became %d", got.Tags)
	}
	_, err := New(Config{Limits: Limits{Tags: -1, CampaignIDBytes: 5000}})
	for _, want := range []string{
		"limit Tags is -1: set it to 1 … 1024",
		"limit CampaignIDBytes is 5000: set it to 1 … 1024",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestShortenedIsReadableText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "s"))
		short := feed.Shortened(s)
		if len(short) > 48*4+32 || strings.ContainsRune(short, 0) || strings.ToValidUTF8(short, "") != short {
			t.Fatalf("%q became %q", s, short)
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	limits := Limits{}.withDefaults()
	e := Event{
		Type: "character_created", AggregateType: "character", AggregateID: "7", Actor: "player:4",
		Tags: []string{"a=1", "b=2", "c=3"}, Payload: benchmarkDocument(),
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := validate("campaign", 0, &e, limits); err != nil {
			b.Fatal(err)
		}
	}
}

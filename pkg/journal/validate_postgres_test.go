package journal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// atTheLimit returns an event as large as the default limits allow.
func atTheLimit() event.Event {
	var tags []string
	for i := range 64 {
		tags = append(tags, fmt.Sprintf("%03d%s", i, strings.Repeat("é", 126))+"x")
	}
	full := func(size int) []byte {
		const head, tail = `{"text": "`, `"}`
		return []byte(head + strings.Repeat("x", size-len(head+tail)) + tail)
	}
	return event.Event{
		Type:          strings.Repeat("t", 256),
		AggregateType: strings.Repeat("a", 256),
		AggregateID:   strings.Repeat("i", 256),
		Actor:         strings.Repeat("é", 128),
		Tags:          tags,
		Payload:       full(1 << 20),
		Metadata:      full(64 << 10),
	}
}

func TestAppendAtTheLimits(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	campaign := strings.Repeat("c", 256)
	nested := func(depth int) []byte {
		return []byte(strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth))
	}

	t.Run("stores an event that is as large as they allow", func(t *testing.T) {
		t.Parallel()
		deep := event.Event{Type: "deep", Payload: nested(128), Metadata: nested(128)}
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := Journal{}.Append(t.Context(), tx, campaign, None, atTheLimit(), deep)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})

	const names = "aggregate_type, aggregate_id, actor"
	for name, test := range map[string]struct {
		field  string // "events": the database does not name the field
		change func(*event.Event)
	}{
		"a byte of type":             {"type", func(e *event.Event) { e.Type += "t" }},
		"a byte of aggregate_type":   {names, func(e *event.Event) { e.AggregateType += "a" }},
		"a byte of aggregate_id":     {names, func(e *event.Event) { e.AggregateID += "i" }},
		"a byte of actor":            {names, func(e *event.Event) { e.Actor += "x" }},
		"a tag":                      {"tags", func(e *event.Event) { e.Tags = append(e.Tags, "one more") }},
		"a byte of a tag":            {"tags", func(e *event.Event) { e.Tags[3] += "x" }},
		"an empty tag":               {"tags", func(e *event.Event) { e.Tags[3] = "" }},
		"no type":                    {"type", func(e *event.Event) { e.Type = "" }},
		"a version below 1":          {"version", func(e *event.Event) { e.Version = -1 }},
		"a version beyond Postgres'": {"version", func(e *event.Event) { e.Version = 1 << 31 }},
		"an unknown intent":          {"intent", func(e *event.Event) { e.Intent = "maybe" }},
		"a field of payload":         {"payload", func(e *event.Event) { e.Payload = append([]byte(`{"more":1,`), e.Payload[1:]...) }},
		"a level of metadata":        {"metadata", func(e *event.Event) { e.Metadata = nested(129) }},
		"what expands when printed": {"payload", func(e *event.Event) {
			e.Payload = []byte(`{"a":[` + strings.Repeat("1e100000,", 11) + `1]}`)
		}},
		"a number beyond jsonb":     {"events", func(e *event.Event) { e.Payload = []byte(`{"a":1e400000}`) }},
		"a NUL escape":              {"events", func(e *event.Event) { e.Metadata = []byte(`{"a":"\u0000"}`) }},
		"half of a surrogate pair":  {"events", func(e *event.Event) { e.Payload = []byte(`{"a":"\ud83d"}`) }},
		"a payload that is no text": {"events", func(e *event.Event) { e.Payload = []byte("{\"a\":\"\xff\"}") }},
		"a year beyond 9999": {"occurred_at", func(e *event.Event) {
			e.OccurredAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
		}},
	} {
		for call, appends := range map[string]func(pgx.Tx, ...event.Event) error{
			"Append": func(tx pgx.Tx, events ...event.Event) error {
				_, err := Journal{}.Append(t.Context(), tx, campaign, Any, events...)
				return err
			},
			"AppendAll": func(tx pgx.Tx, events ...event.Event) error {
				_, err := Journal{}.AppendAll(t.Context(), tx, Batch{CampaignID: campaign, Events: events})
				return err
			},
		} {
			t.Run(call+" refuses one more: "+name, func(t *testing.T) {
				t.Parallel()
				e := atTheLimit()
				test.change(&e)
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return appends(tx, event.Event{Type: "fine"}, e) })
				invalid, ok := errors.AsType[*InvalidEventError](err)
				if !ok || invalid.Field != test.field || invalid.Field != "events" && (invalid.Index != 1 ||
					invalid.Campaign != campaign) {
					t.Fatalf("got %v", err)
				}
				if message := err.Error(); len(message) > 700 || strings.Contains(message, "xxxx") {
					t.Errorf("a message of %d bytes: %s", len(message), message)
				}
			})
		}
	}
}

func TestALimitOfACallIsTheDatabases(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `UPDATE tidemark.limits SET events_per_call = 3`); err != nil {
		t.Fatal(err)
	}
	some := make([]event.Event, 4)
	for i := range some {
		some[i].Type = "noted"
	}
	for name, appends := range map[string]func(tx pgx.Tx) error{
		"Append": func(tx pgx.Tx) error { _, err := Journal{}.Append(t.Context(), tx, "a", Any, some...); return err },
		"AppendAll": func(tx pgx.Tx) error {
			_, err := Journal{}.AppendAll(t.Context(), tx, Batch{CampaignID: "a", Events: some[:2]}, Batch{CampaignID: "b", Events: some[:2]})
			return err
		},
		"a campaign id": func(tx pgx.Tx) error {
			_, err := Journal{}.Append(t.Context(), tx, strings.Repeat("c", 257), Any, some[0])
			return err
		},
		"no campaign id": func(tx pgx.Tx) error { _, err := Journal{}.Append(t.Context(), tx, "", Any, some[0]); return err },
	} {
		err := pgx.BeginFunc(t.Context(), pool, appends)
		if invalid, ok := errors.AsType[*InvalidEventError](err); !ok || invalid.Index != -1 {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// invalidEvent is the SQLSTATE of refused events. Postgres refuses what it cannot parse with
// SQLSTATEs of its own.
const invalidEvent = "TM004"

func eventJSON(fields string) string { return `[{"type": "fine"}, {` + fields + `}]` }

func nested(open, inner, closing string, levels int) string {
	return strings.Repeat(open, levels) + inner + strings.Repeat(closing, levels)
}

func TestTheDatabaseRefusesWhatTheLibraryRefuses(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "INSERT INTO tidemark.consumer_groups (name) VALUES ('g')")
	long := strings.Repeat("x", 257)
	t.Run("each", func(t *testing.T) {
		for name, test := range map[string]struct {
			campaign, events, state, field string
		}{
			"an empty campaign id":     {"", `[{"type": "x"}]`, invalidEvent, ""},
			"a long campaign id":       {long, `[{"type": "x"}]`, invalidEvent, ""},
			"events that are no array": {"c", `{"type": "x"}`, invalidEvent, ""},
			"events that are null":     {"c", `null`, invalidEvent, ""},
			"10,001 events": {
				"c", `[` + strings.Repeat(`{"type": "x"},`, 10_000) + `{"type": "x"}]`,
				invalidEvent, "",
			},
			"an event that is no object":      {"c", `[{"type": "x"}, 7]`, invalidEvent, "event"},
			"no type":                         {"c", eventJSON(`"payload": {}`), invalidEvent, "type"},
			"an empty type":                   {"c", eventJSON(`"type": ""`), invalidEvent, "type"},
			"a long type":                     {"c", eventJSON(`"type": "` + long + `"`), invalidEvent, "type"},
			"the type of notices of erasures": {"c", eventJSON(`"type": "events_erased"`), invalidEvent, "type"},
			"the mark of erasures":            {"c", eventJSON(`"type": "x", "metadata": {"$erased": 1}`), invalidEvent, "metadata"},
			"the mark of archives": {
				"c", eventJSON(`"type": "x", "metadata": {"by": 1, "$archived": {}}`),
				invalidEvent, "metadata",
			},
			"version 0":                       {"c", eventJSON(`"type": "x", "version": 0`), invalidEvent, "version"},
			"a version beyond integers":       {"c", eventJSON(`"type": "x", "version": 2147483648`), invalidEvent, "version"},
			"an unknown intent":               {"c", eventJSON(`"type": "x", "intent": "maybe"`), invalidEvent, "intent"},
			"a payload that is an array":      {"c", eventJSON(`"type": "x", "payload": [1]`), invalidEvent, "payload"},
			"a payload that is a string":      {"c", eventJSON(`"type": "x", "payload": "{}"`), invalidEvent, "payload"},
			"a field that events do not have": {"c", eventJSON(`"type": "x", "foo": 1`), invalidEvent, "foo"},
			"a seq of its own":                {"c", eventJSON(`"type": "x", "seq": 99`), invalidEvent, "seq"},
			"a payload that is too deep at last": {
				"c", eventJSON(`"type": "x", "payload": ` + nested(`{"a": `, `{}`, `}`, 128)),
				invalidEvent, "payload",
			},
			"a payload of 10,000 levels": {
				"c", eventJSON(`"type": "x", "payload": ` + nested(`{"a":`, `1`, `}`, 10_000)),
				invalidEvent, "payload",
			},
			"a payload that nothing can print": {"c", eventJSON(`"type": "x", "payload": {"a": [1` +
				strings.Repeat(",1e131000", 9000) + `]}`), invalidEvent, "payload"},
			"a long payload": {"c", eventJSON(`"type": "x", "payload": {"a": "` +
				strings.Repeat("x", 1<<20-8) + `"}`), invalidEvent, "payload"},
			"a payload that is short but grows": {"c", eventJSON(`"type": "x", "payload": {"a": [1` +
				strings.Repeat(",1e131000", 10) + `]}`), invalidEvent, "payload"},
			"a deep payload of objects": {
				"c", eventJSON(`"type": "x", "payload": ` + nested(`{"a": `, `1`, `}`, 129)),
				invalidEvent, "payload",
			},
			"a deep payload of arrays": {"c", eventJSON(`"type": "x", "payload": {"a": ` +
				nested(`[`, `1`, `]`, 128) + `}`), invalidEvent, "payload"},
			"a payload beyond the parser": {"c", eventJSON(`"type": "x", "payload": {"a": ` +
				nested(`[`, `1`, `]`, 100_000) + `}`), "54001", ""},
			"metadata that are a string": {"c", eventJSON(`"type": "x", "metadata": "a"`), invalidEvent, "metadata"},
			"long metadata": {"c", eventJSON(`"type": "x", "metadata": {"a": "` +
				strings.Repeat("x", 1<<16-8) + `"}`), invalidEvent, "metadata"},
			"metadata that are short but grow": {
				"c", eventJSON(`"type": "x", "metadata": {"a": 1e131000}`), invalidEvent,
				"metadata",
			},
			"deep metadata": {
				"c", eventJSON(`"type": "x", "metadata": ` + nested(`{"a": `, `1`, `}`, 129)),
				invalidEvent, "metadata",
			},
			"65 tags": {
				"c", eventJSON(`"type": "x", "tags": [` + strings.Repeat(`"a",`, 64) + `"a"]`),
				invalidEvent, "tags",
			},
			"an empty tag":       {"c", eventJSON(`"type": "x", "tags": ["a", ""]`), invalidEvent, "tags"},
			"a tag that is null": {"c", eventJSON(`"type": "x", "tags": ["a", null]`), invalidEvent, "tags"},
			"a long tag":         {"c", eventJSON(`"type": "x", "tags": ["` + long + `"]`), invalidEvent, "tags"},
			"tags in tags":       {"c", eventJSON(`"type": "x", "tags": [["a"], ["b"]]`), invalidEvent, "tags"},
			"a long aggregate type": {
				"c", eventJSON(`"type": "x", "aggregate_type": "` + long + `"`), invalidEvent,
				"aggregate_type, aggregate_id, actor",
			},
			"a long aggregate id": {
				"c", eventJSON(`"type": "x", "aggregate_id": "` + long + `"`), invalidEvent,
				"aggregate_type, aggregate_id, actor",
			},
			"a long actor": {
				"c", eventJSON(`"type": "x", "actor": "` + strings.Repeat("é", 129) + `"`),
				invalidEvent, "aggregate_type, aggregate_id, actor",
			},
			"a time that no reader understands": {
				"c", eventJSON(`"type": "x", "occurred_at": "infinity"`), invalidEvent,
				"occurred_at",
			},
			"a time before the calendar": {
				"c", eventJSON(`"type": "x", "occurred_at": "0044-03-15 BC"`), invalidEvent,
				"occurred_at",
			},
			"an id that is no UUID":              {"c", eventJSON(`"type": "x", "id": "seven"`), invalidEvent, "id"},
			"a NUL character":                    {"c", eventJSON(`"type": "x", "payload": {"a": "\u0000"}`), "22P05", ""},
			"half of a surrogate pair":           {"c", eventJSON(`"type": "x", "payload": {"a": "\ud83d"}`), "22P02", ""},
			"bytes that are not UTF-8":           {"c", eventJSON(`"type": "x", "payload": {"a": "` + "\xff" + `"}`), "22021", ""},
			"a campaign id with a NUL character": {"c\x00", `[{"type": "x"}]`, "22021", ""},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				_, err := pool.Exec(t.Context(), "SELECT FROM tidemark.append($1, $2::jsonb)", test.campaign, test.events)
				var pgErr *pgconn.PgError
				if !errors.As(err, &pgErr) || pgErr.Code != test.state {
					t.Fatalf("got %.500v, want SQLSTATE %s", err, test.state)
				}
				if test.field != "" {
					var detail struct {
						Campaign, Field, Reason string
						Index                   int
					}
					if err := json.Unmarshal([]byte(pgErr.Detail), &detail); err != nil || detail.Campaign != test.campaign ||
						detail.Field != test.field || detail.Index != 1 || detail.Reason == "" {
						t.Errorf("the detail is %.500s, %v", pgErr.Detail, err)
					}
				}
				if len(pgErr.Message) > 600 {
					t.Errorf("a message of %d bytes", len(pgErr.Message))
				}
			})
		}
	})
	if n := query[int64](t, pool,
		"SELECT (SELECT count(*) FROM tidemark.journal) + (SELECT count(*) FROM tidemark.outbox)"); n != 0 {
		t.Errorf("what was refused wrote %d rows", n)
	}
}

func TestTheDatabaseTakesLimitsThatWereChanged(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	session, err := pool.Acquire(t.Context()) // one session: it must see limits that change after it began
	if err != nil {
		t.Fatal(err)
	}
	defer session.Release()
	try := func(events string) (state string) {
		_, err := session.Exec(t.Context(), "SELECT FROM tidemark.append('c', $1::jsonb)", events)
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) {
			return pgErr.Code
		} else if err != nil {
			t.Fatal(err)
		}
		return ""
	}
	payload := func(n int) string {
		return fmt.Sprintf(`[{"type": "x", "payload": {"a": %q}}]`, strings.Repeat("x", n-9))
	}
	for _, test := range []struct {
		limit   string
		value   int
		fits    string
		tooMuch string
	}{
		{"payload_bytes", 2 << 20, payload(2 << 20), payload(2<<20 + 1)},
		{"payload_bytes", 100, payload(100), payload(101)},
		{"payload_depth", 3, `[{"type": "x", "payload": {"a": [[1]]}}]`, `[{"type": "x", "payload": {"a": [[[1]]]}}]`},
		{"payload_depth", 3, `[{"type": "x", "metadata": {"a": [[1]]}}]`, `[{"type": "x", "metadata": {"a": [[[1]]]}}]`},
		{
			"metadata_bytes", 20, `[{"type": "x", "metadata": {"a": "12345678901"}}]`,
			`[{"type": "x", "metadata": {"a": "123456789012"}}]`,
		},
		{"tags", 2, `[{"type": "x", "tags": ["a", "b"]}]`, `[{"type": "x", "tags": ["a", "b", "c"]}]`},
		{"tag_bytes", 300, `[{"type": "x", "tags": ["` + strings.Repeat("x", 300) + `"]}]`, `[{"type": "x", "tags": ["` +
			strings.Repeat("x", 301) + `"]}]`},
		{"events_per_call", 1, `[{"type": "x"}]`, `[{"type": "x"}, {"type": "x"}]`},
	} {
		exec(t, pool, fmt.Sprintf("UPDATE tidemark.limits SET %s = %d", test.limit, test.value))
		if state := try(test.fits); state != "" {
			t.Errorf("%s = %d: what just fits is refused with %s", test.limit, test.value, state)
		}
		if state := try(test.tooMuch); state != invalidEvent {
			t.Errorf("%s = %d: what is just too much is answered with %q", test.limit, test.value, state)
		}
		exec(t, pool, fmt.Sprintf("UPDATE tidemark.limits SET %s = DEFAULT", test.limit))
	}
}

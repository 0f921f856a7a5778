package redact_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/event"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, message, payload, want string }{
		{
			"leaves what says nothing of the payload",
			`column "by" does not exist`,
			`{"by": 1}`,
			`column "by" does not exist`,
		},
		{"takes out the payload", `bad event {"name": "ann"}`, `{"name": "ann"}`, `bad event …`},
		{"also without its blanks", `bad event {"name":"ann"}`, `{"name": "ann"}`, `bad event …`},
		{
			"takes out strings, wherever they stand",
			`no player annabel here`,
			`{"a": [{"name": "annabel"}]}`,
			`no player … here`,
		},
		{"but not out of other words", `no player annabella`, `{"name": "annabel"}`, `no player annabella`},
		{
			"out of other words where they are long and no mere letters",
			`xann@example.comx`,
			`{"v": "ann@example.com"}`,
			`x…x`,
		},
		{
			"short ones only between quotes",
			`no "ann" in planning, 'ann' or ann`,
			`{"name": "ann"}`,
			`no "…" in planning, '…' or ann`,
		},
		{"numbers as well", `id 4711 of 12`, `{"id": 4711, "n": 12}`, `id … of 12`},
		{"strings that Go quotes", `no "a\"bc\n"`, `{"name": "a\"bc\n"}`, `no "…"`},
		{"the longest first", `no ann baker smith`, `{"a": "baker", "b": "ann baker smith"}`, `no …`},
		{
			"passwords of URLs",
			`dial postgres://app:s3cr@t@db:5432/x failed`,
			`{}`,
			`dial postgres://app:…@db:5432/x failed`,
		},
		{
			"passwords of connection strings",
			`cannot use host=db password='my secret' user=app`,
			`{}`,
			`cannot use host=db password=… user=app`,
		},
		{"makes UTF-8 of it, without NUL", "a\xffb\x00c", ``, "a\uFFFDb\uFFFDc"},
		{"in small letters or capitals", `no ANNABEL`, `{"name": "annabel"}`, `no …`},
		{
			"as JSON and URLs write them",
			`no <ann&bob> \u003cann\u0026bob\u003e %3Cann&bob%3E %3Cann%26bob%3E`,
			`{"v": "<ann&bob>"}`,
			`no … … … …`,
		},
		{"cut off at their end", `no 4111-1111-1111`, `{"card": "4111-1111-1111-1111"}`, `no …`},
		{
			"names of fields that no column has",
			`no ann@example.com, a_column`,
			`{"ann@example.com": true, "a_column": true}`,
			`no …, a_column`,
		},
		{"survives a payload that is none", `no luck`, `{"a`, `no luck`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := &event.Event{Payload: json.RawMessage(test.payload)}
			if got := redact.Text(test.message, e); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestAllThatAnEventSaysIsTakenOut(t *testing.T) {
	t.Parallel()
	e := &event.Event{
		CampaignID: "oak-7", AggregateID: "oak-7", Actor: "user:annabel", Tags: []string{"customer=c-4711", "vip-guest"},
		Metadata: json.RawMessage(`{"by": {"name": "annabel"}, "ip": "10.0.0.1"}`),
	}
	const message = `campaign oak-7: no user:annabel, customer=c-4711, c-4711, vip-guest, Annabel, "10.0.0.1"`
	if got, want := redact.Text(message, e), `campaign oak-7: no …, …, …, …, …, "…"`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	e.AggregateID = "account-12"
	if got, want := redact.Text("no account-12 in oak-7", e), "no … in oak-7"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRedactAnswersBoundedTextWithoutAnyValue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[a-zA-Z0-9 "\\é]{4,40}`).Draw(t, "value")
		payload, err := json.Marshal(map[string]any{"v": value})
		if err != nil {
			t.Fatal(err)
		}
		filler := strings.Repeat("é", rapid.IntRange(0, 5000).Draw(t, "filler"))
		form := rapid.SampledFrom([]string{"no %s!", "no %q!", "(%s)", filler + " %s " + filler}).Draw(t, "form")
		got := redact.Text(fmt.Sprintf(form, value), &event.Event{Payload: payload})
		if strings.Contains(got, value) {
			t.Fatalf("%q is in %q", value, got)
		}
		if len(got) > 4<<10 || !utf8.ValidString(got) {
			t.Fatalf("%d bytes, valid: %v", len(got), utf8.ValidString(got))
		}
	})
	if n := len(redact.Stack(strings.Repeat("x", 1<<20))); n != 16<<10 {
		t.Errorf("a stack has %d bytes", n)
	}
}

package deferred_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/pkg/deferred"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, message, payload, want string }{
		{"leaves what says nothing of the payload", `column "by" does not exist`, `{"by": 1}`, `column "by" does not exist`},
		{"takes out the payload", `bad event {"name": "ann"}`, `{"name": "ann"}`, `bad event …`},
		{"also without its blanks", `bad event {"name":"ann"}`, `{"name": "ann"}`, `bad event …`},
		{"takes out strings, wherever they stand", `no player annabel here`, `{"a": [{"name": "annabel"}]}`, `no player … here`},
		{"but not out of other words", `no player annabella`, `{"name": "annabel"}`, `no player annabella`},
		{"short ones only between quotes", `no "ann" in planning, 'ann' or ann`, `{"name": "ann"}`, `no "…" in planning, '…' or ann`},
		{"numbers as well", `id 4711 of 12`, `{"id": 4711, "n": 12}`, `id … of 12`},
		{"strings that Go quotes", `no "a\"bc\n"`, `{"name": "a\"bc\n"}`, `no "…"`},
		{"the longest first", `no ann baker smith`, `{"a": "baker", "b": "ann baker smith"}`, `no …`},
		{"passwords of URLs", `dial postgres://app:s3cr@t@db:5432/x failed`, `{}`, `dial postgres://app:…@db:5432/x failed`},
		{"passwords of connection strings", `cannot use host=db password='my secret' user=app`, `{}`, `cannot use host=db password=… user=app`},
		{"makes UTF-8 of it, without NUL", "a\xffb\x00c", ``, "a\uFFFDb\uFFFDc"},
		{"survives a payload that is none", `no luck`, `{"a`, `no luck`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := deferred.Redact(test.message, json.RawMessage(test.payload)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
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
		got := deferred.Redact(fmt.Sprintf(form, value), payload)
		if strings.Contains(got, value) {
			t.Fatalf("%q is in %q", value, got)
		}
		if len(got) > 4<<10 || !utf8.ValidString(got) {
			t.Fatalf("%d bytes, valid: %v", len(got), utf8.ValidString(got))
		}
	})
	if n := len(deferred.RedactStack(strings.Repeat("x", 1<<20))); n != 16<<10 {
		t.Errorf("a stack has %d bytes", n)
	}
}

func TestFailuresOfOneCauseHaveOneFingerprint(t *testing.T) {
	t.Parallel()
	same := deferred.Fingerprint("error", `no player "ann" at 12, event 01234567-89ab-cdef-0123-456789abcdef`)
	if other := deferred.Fingerprint("error", `no player "…" at 7, event 76543210-89ab-cdef-0123-456789abcdef`); other != same || len(same) != 12 {
		t.Errorf("%s and %s", same, other)
	}
	for _, different := range []string{deferred.Fingerprint("panic", `no player "ann" at 12`), deferred.Fingerprint("error", `no campaign "ann"`)} {
		if different == same {
			t.Errorf("%s twice", same)
		}
	}
}

func TestPatternMatchesMessagesOfOneCause(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of, other string
		want      bool
	}{
		{`no player "ann" at 12 (a+b)`, `no player "bob" at 7 (a+b)`, true},
		{`no player "ann" at 12 (a+b)`, `no player "bob" at 7 (aab)`, false},
		{`no player "ann" at 12`, `no player "ann" at 12, again`, false},
		{"422: refused\nby the gateway", "500: refused\nby somebody else", true},
		{strings.Repeat("ä", 300) + "1", strings.Repeat("ä", 300) + "2", true},
	} {
		pattern := deferred.Pattern(c.of)
		if got := regexp.MustCompile("(?s)" + pattern).MatchString(c.other); got != c.want {
			t.Errorf("%q, of %q, matches %q: %v", pattern, c.of, c.other, got)
		}
	}
}

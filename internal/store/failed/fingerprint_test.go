package failed_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/store/failed"
)

func TestFailuresOfOneCauseHaveOneFingerprint(t *testing.T) {
	t.Parallel()
	same := failed.Fingerprint("error", `no player "ann" at 12, event 01234567-89ab-cdef-0123-456789abcdef`)
	if other := failed.Fingerprint("error",
		`no player "…" at 7, event 76543210-89ab-cdef-0123-456789abcdef`); other != same || len(same) != 12 {
		t.Errorf("%s and %s", same, other)
	}
	for _, different := range []string{
		failed.Fingerprint("panic", `no player "ann" at 12`),
		failed.Fingerprint("error", `no campaign "ann"`),
	} {
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
		pattern := failed.Pattern(c.of)
		if got := regexp.MustCompile("(?s)" + pattern).MatchString(c.other); got != c.want {
			t.Errorf("%q, of %q, matches %q: %v", pattern, c.of, c.other, got)
		}
	}
}

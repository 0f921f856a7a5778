package failed_test

import (
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

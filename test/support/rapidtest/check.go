// Package rapidtest bounds what random tests take.
package rapidtest

import (
	"flag"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// usualChecks is how many turns rapid takes unless -rapid.checks says otherwise.
const usualChecks = 100

// Check is [rapid.Check] for a property whose every turn takes many round trips: it takes that many
// turns, and as many times more as -rapid.checks is above its usual hundred. Once a turn has failed
// all turns are taken, so that rapid finds the simplest case.
func Check(t *testing.T, turns int, property func(*rapid.T)) {
	t.Helper()
	if set, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String()); err == nil {
		turns = max(1, turns*set/usualChecks)
	}
	taken, failed := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if taken >= turns && !failed {
			return
		}
		taken++
		passed := false
		defer func() { failed = failed || !passed }()
		property(rt)
		passed = !rt.Failed()
	})
}

// Package rapidtest limits the duration of random tests.
package rapidtest

import (
	"flag"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// usualChecks is rapid's default number of checks.
const usualChecks = 100

// Check is [rapid.Check] for a property that takes many round trips. It runs the given number of
// turns, scaled by -rapid.checks relative to its default of 100. After a failure it runs all turns,
// so that rapid can find the simplest case.
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

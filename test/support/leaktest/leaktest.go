// Package leaktest fails a package's tests when a goroutine outlives them.
//
// It uses goleak, with patience: goroutines that end after a Close, such as those of connections in
// other libraries, may take longer on a busy machine than goleak waits. A goroutine that stays is
// still found.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end.
const patience = time.Minute

// Main runs a package's tests:
//
//	func TestMain(m *testing.M) { leaktest.Main(m) }
//
// The options list goroutines of other packages that may stay.
func Main(m *testing.M, options ...goleak.Option) { os.Exit(Check(m.Run(), options...)) }

// Check is for a TestMain that has more to do after the tests and before the check. It returns the exit code, given
// that of the tests.
func Check(code int, options ...goleak.Option) int {
	if code != 0 {
		return code
	}
	if err := find(patience, options...); err != nil {
		fmt.Fprintf(os.Stderr, "goroutines outlive the tests: %v\n", err)
		return 1
	}
	return 0
}

// None fails a test if a goroutine is left that no option allows. No other test may run at the same
// time.
func None(t testing.TB, options ...goleak.Option) {
	t.Helper()
	if err := find(patience, options...); err != nil {
		t.Error(err)
	}
}

// find returns an error that lists the remaining goroutines, or nil once there are none.
func find(patience time.Duration, options ...goleak.Option) error {
	for deadline := time.Now().Add(patience); ; { // goleak itself waits for a moment
		if err := goleak.Find(options...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

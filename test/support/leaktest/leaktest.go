// Package leaktest fails a package's tests when a goroutine outlives them.
//
// It looks with goleak, and with patience: what winds down after a Close, as connections of other
// libraries do, ends on a busy machine later than goleak by itself waits for. A goroutine that
// stays is found all the same.
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
// The options say which goroutines of others may stay.
func Main(m *testing.M, options ...goleak.Option) { os.Exit(Run(m, options...)) }

// Run does the same for a TestMain that has more to do, and answers the code to exit with.
func Run(m *testing.M, options ...goleak.Option) (code int) {
	if code := m.Run(); code != 0 {
		return code
	}
	if err := find(patience, options...); err != nil {
		fmt.Fprintf(os.Stderr, "goroutines outlive the tests: %v\n", err)
		return 1
	}
	return 0
}

// None fails a test when a goroutine is left that no option allows. No other test may run at the same time.
func None(t testing.TB, options ...goleak.Option) {
	t.Helper()
	if err := find(patience, options...); err != nil {
		t.Error(err)
	}
}

// find answers which goroutines are left once there are none, or once the time is over.
func find(patience time.Duration, options ...goleak.Option) error {
	for deadline := time.Now().Add(patience); ; { // goleak waits a moment by itself
		if err := goleak.Find(options...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

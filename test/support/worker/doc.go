// Package worker runs a worker as a separate process, so that a test can kill, stop and continue it
// with real signals at a chosen step.
//
// The process is the test binary itself. A package that starts workers has
//
//	func TestMain(m *testing.M) { worker.Main(m) }
package worker

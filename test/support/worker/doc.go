// Package worker runs a worker in a process of its own, so that a test can kill, stop and continue
// it with real signals at a step it chooses.
//
// The process is the test binary itself: a package that starts workers has
//
//	func TestMain(m *testing.M) { worker.Main(m) }
package worker

// Package worker runs a program's own projections with everything that the stock worker has: settings, log, health,
// metrics, pages, API, publishers and the commands projection verify and campaign as-of, diff and why.
//
//	func main() {
//		os.Exit(worker.Main(worker.Options{
//			Projections: []projector.Projection{sessions()},
//			Sinks:       []publisher.Kind{webhook.Kind()},
//		}))
//	}
//
// [Main] is a whole command. [New] and [Worker.Run] run the same worker inside another program.
//
// Sinks are imported one by one from pkg/sink, so that a program links no broker's client that it does not use.
package worker

// Package projection declares read models and processes: what turns events into rows.
//
// A [Projection] turns events into rows of its own tables. Take one of the kinds:
//
//   - [Document] folds events into one JSON document a key, in memory: the simplest and the fastest
//   - [Handlers] is a function for each event type, which queues its own statements
//   - [Process] keeps a state for each key, and reacts to events by appending others
//   - SQL files (package sqlfile) need no code
//
// Each kind is a struct. A literal of it is the projection:
//
//	var orders = projection.Document[Order]{
//		Name: "orders", Version: 1,
//		On: event.Folds[Order]{
//			event.On(OrderPlaced, func(o *Order, e event.Event, p Placed) error {
//				o.Customer = p.Customer
//				return nil
//			}),
//		},
//	}
//
// Package projector applies them: pass them as [Projector's Config].Projections, or to worker.Main.
//
// # Failures
//
// A projection that fails on an event stops before it, for that campaign or key only. A [Policy] decides by
// projection, event type and [Class] of the failure whether it is tried again, waits for an operator, or
// skips the event. [Permanent] marks an error that no retry can help.
//
// # Rules
//
// Fold and Apply must depend only on the events and the projection's tables: no clock, no random numbers, no
// network. Otherwise a replay gives another result. They run again when a transaction is rolled back, so they
// must have no effects elsewhere. Several goroutines call them at once, with different campaigns.
//
// Stability: as of version 1, no field or function changes its meaning, and structs may get fields.
// Interfaces get no methods.
//
// [Projector's Config]: https://pkg.go.dev/github.com/tidemark-go/tidemark/pkg/projector#Config
package projection

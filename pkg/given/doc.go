// Package given tests decisions, documents, handlers and processes without a database: given these events, then
// this state, these statements, these reactions.
//
//	var j given.Journal
//	j.Append("order-1", OrderPlaced.New(Placed{Total: 300}), OrderPaid.New(Paid{}))
//	docs, err := given.Documents(orders, j.Events())
//	// docs[given.Key{Campaign: "order-1"}].Paid is true
//
// The functions call a projection's code as workers do: in the order of the events, those of the types that it
// wants, with decoded payloads. They run no SQL: what depends on Postgres belongs in a test with a database
// (package projectiontest).
//
// Stability: as of version 1, functions are added and none changes its meaning.
package given

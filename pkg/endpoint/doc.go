// Package endpoint has HTTP handlers for programs that append: commands that take effect once, however often their
// request comes, and reads that show what was written before.
//
//	mux.Handle("POST /orders", endpoint.Command(logger,
//		func(r *http.Request, c journal.Command, o Order) (journal.Outcome, error) {
//			c.CampaignID = "order-" + c.ID.String()
//			return placeOrder(r.Context(), pool, c, o)
//		}, errSoldOut))
//	mux.Handle("GET /orders/{id}", endpoint.Waiting(waits, showOrder, "orders"))
//
// A client makes a UUID for each command and sends it in the header Idempotency-Key. The answer has the header
// Tidemark-Token, which the client sends with its next read.
//
// The package knows no users: wrap its handlers in one that checks who asks. It is safe for concurrent use.
//
// Stability: as of version 1, functions are added, and no answer changes its meaning.
package endpoint

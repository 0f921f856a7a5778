// Command delivery shows that an order placed in one service has its effect in another exactly
// once, although processes are killed all the while:
//
//	go run ./examples/delivery
//
//	shop ── order and event in one transaction ──► its Postgres ──► worker ──► NATS JetStream ──► billing ── mark and invoice in one transaction ──► its Postgres
//
// The shop keeps orders in a table of its own and emits an event beside each; some of its
// transactions roll back. The worker is the stock worker. Billing consumes from the broker, and
// marks each event with pkg/inbox in the transaction that writes the invoice. Each of the three is
// a process, and gets kill -9 at random moments; the broker is embedded and stays. In the end each
// order must have one invoice, and the program says so, or exits with 1:
//
//	300 orders, 12 processes killed, 341 deliveries of which 41 were repeats: 300 invoices, 0 missing, 0 twice, 0 accounts wrong
//
// Each of the two services has a database of its own, made and migrated for the run and dropped
// after it (-keep leaves them there): only what the broker delivers crosses from one to the other.
// They are made on the server that TIDEMARK_DATABASE_URL names, or on a Postgres that the program
// starts for itself and throws away.
package main

// Command delivery shows that an order placed in one service takes effect in another exactly once,
// although processes are killed all the time:
//
//	go run ./examples/delivery
//
//	shop ── order and event in one transaction ──► its Postgres ──► worker ──► NATS JetStream ──► billing ── mark and invoice in one transaction ──► its Postgres
//
// The shop keeps orders in a table of its own and appends an event with each of them. Some of its
// transactions roll back. The worker is the stock worker. Billing consumes from the broker and
// marks each event with pkg/inbox in the transaction that writes the invoice. Each of the three is
// a process and gets kill -9 at random moments. The broker is embedded and stays up. At the end
// each order must have one invoice. The program prints the result, and exits with 1 if it is wrong:
//
//	300 orders, 12 processes killed, 341 deliveries of which 41 were repeats: 300 invoices, 0 missing, 0 twice, 0 accounts wrong
//
// Each of the two services has a database of its own, created and migrated for the run and dropped
// after it (-keep keeps them). Only the broker's deliveries cross from one to the other. The
// databases are created on the server that TIDEMARK_DATABASE_URL names, or on a temporary Postgres
// that the program starts.
package main

// Package admin does the acts of operators, for the command line, the API and the pages. Package
// operator declares the acts.
//
// An act checks the caller's role, makes its change and writes a row of tidemark.operator_log, in one
// transaction. A request that repeats an idempotency key changes nothing and gets the first result.
// The package that owns a table makes the changes to it.
//
// Acts that take longer than a request are operations. Their items are frozen at the confirmation, and
// workers ([Runner]) do them in batches. They can be followed and aborted.
//
// The package owns tidemark.act_keys, tidemark.operations and tidemark.operation_items. All of it
// is safe for concurrent use.
package admin

// Package admin does acts of operators: who, why, and a key under which the same request does nothing
// a second time. What an act does is a value in package operator.
//
// Every act checks the caller's role, does it, and writes a row of tidemark.operator_log, in
// one transaction. The command line, the API and the pages go through here. What an act changes
// is the business of the package that owns the table; nothing of it is repeated.
//
// What takes longer than a request is an operation: its items are frozen when it is confirmed,
// workers ([Runner]) do them in batches, and it can be followed and aborted.
//
// The package owns tidemark.act_keys, tidemark.operations and tidemark.operation_items. All of it
// is safe for concurrent use.
package admin

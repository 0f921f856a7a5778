package projector

import (
	"github.com/tidemark-go/tidemark/internal/projector/failure"
)

// Class is what a failure says of the event that was being applied.
type Class = failure.Class

// The classes.
const (
	// nothing: it is the database's or the network's. It costs the event no attempt
	ClassInfrastructure = failure.ClassInfrastructure
	ClassTransient      = failure.ClassTransient // perhaps nothing: another attempt may succeed
	// that it cannot be applied, today or tomorrow, by the projection as it is
	ClassPermanent = failure.ClassPermanent
	// nothing: a session holds a row or table that it needs. The pair is tried again about once a
	// second, at the cost of no attempt
	ClassLock = failure.ClassLock
)

// Classify answers the class of a failure where the Classify of the projection's [Spec] does not, which answers ""
// for what it does not know. What that calls [ClassInfrastructure] makes the worker wait as a whole;
// what it calls something else costs an attempt even where Classify would say infrastructure, which
// is right for failures of a service that only this projection talks to. A connection to Postgres
// that broke stays infrastructure whatever it says. By SQLSTATE:
//
//   - lock: lock not available (55P03), deadlock (40P01)
//   - infrastructure: connection (08), failed authorization (28) and missing database (3D) on a new
//     connection, other transaction rollbacks (40), resources (53),
//     operator intervention such as shutdown or a cancelled statement (57), system (58), read-only server (25006), idle
//     transaction ended (25P03)
//   - permanent: cardinality (21), data (22), constraints (23), program limits such as a row that
//     is too large for an index (54), CHECK OPTION (44), and of 42 what no
//     deployment mends: syntax errors and mismatched types
//   - transient: all others. Among them is what is missing or forbidden in the schema (42P01,
//     42703, 42883, 42704, 42501, 3F000): it is a deployment's fault, not the
//     event's, it is soon mended, and it concerns all campaigns at once, so that none should need an operator for it
//
// Of other errors: what cannot be decoded ([journal.DecodeError], errors of encoding/json),
// [journal.ErrUnknownVersion], a panic and what [Permanent] has marked are permanent. An error with
// a method FailureClass() Class speaks for itself. The rest is transient, network errors and ended
// contexts among it: they are those of a service that the projection talks to, or of a deadline of
// its own.
//
// A projection that takes longer than its [Policy].Timeout has failed transiently. Whatever the error says, it is
// infrastructure if the connection to Postgres has broken or the worker stops: Tidemark looks at that first.
func Classify(err error) Class {
	return failure.Classify(err)
}

// Permanent marks an error as permanent: the pair is dead at once, unless a policy says otherwise.
// It leaves an error that says nothing of the event ([ClassInfrastructure]), and nil, as they are.
func Permanent(err error) error {
	return failure.Permanent(err)
}

// ApplyError says which event a projection could not apply. It wraps the cause.
type ApplyError = failure.ApplyError

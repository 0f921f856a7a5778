package projector

import (
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
)

// Class tells what a failure means for the event that was being applied.
type Class = failure.Class

// The classes.
const (
	// a failure of the database or the network; it costs the event no attempt
	ClassInfrastructure = failure.ClassInfrastructure
	ClassTransient      = failure.ClassTransient // another attempt may succeed
	// the projection as it is can never apply the event
	ClassPermanent = failure.ClassPermanent
	// another session holds a row or table that it needs; the first retry comes after 1s, later ones
	// within 10s, and no attempt is counted
	ClassLock = failure.ClassLock
)

// Classify returns the class of a failure. The Classify of the projection's [Spec] comes first; it
// returns "" for errors that it does not know. If that calls an error [ClassInfrastructure], the whole
// worker waits. Any other class costs an attempt, even where Classify would return infrastructure: use
// that for failures of a service that only this projection talks to. A broken connection to Postgres is
// always infrastructure. By SQLSTATE:
//
//   - lock: lock not available (55P03), deadlock (40P01)
//   - infrastructure: connection (08), failed authorization (28) and missing database (3D) on a new
//     connection, other transaction rollbacks (40), resources (53), operator intervention such as
//     shutdown or a cancelled statement (57), system (58), read-only server (25006), idle transaction
//     ended (25P03)
//   - permanent: cardinality (21), data (22), constraints (23), program limits such as a row that is
//     too large for an index (54), CHECK OPTION (44), and those of 42 that no deployment mends: syntax
//     errors and mismatched types
//   - transient: all others, also objects that are missing or forbidden in the schema (42P01, 42703,
//     42883, 42704, 42501, 3F000). A deployment causes and soon mends these, and they concern all
//     campaigns at once, so they should not need an operator.
//
// Other errors: decoding errors ([journal.DecodeError], encoding/json), [journal.ErrUnknownVersion],
// panics and errors marked by [Permanent] are permanent. A method FailureClass() Class of an error
// decides for it. All others are transient, also network errors and ended contexts: these come from a
// service that the projection talks to, or from a deadline of its own.
//
// A projection that exceeds its [Policy].Timeout has failed transiently. If the connection to Postgres
// has broken or the worker stops, the failure is infrastructure, whatever the error.
func Classify(err error) Class {
	return failure.Classify(err)
}

// Permanent marks an error as permanent: the campaign is dead at once, unless a policy says
// otherwise. It returns nil and errors of [ClassInfrastructure] unchanged.
func Permanent(err error) error {
	return failure.Permanent(err)
}

// ApplyError names the event that a projection could not apply. It wraps the cause.
type ApplyError = failure.ApplyError

// OwnerError is returned by [Projector.Verify] and erasure.Verify instead of reading a table whose owner
// may do less than the session: reading it could run its owner's code with all rights of the session's
// user.
type OwnerError = registry.OwnerError

package projection

import (
	"errors"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/projector/classify"
	"github.com/tidemark-go/tidemark/internal/redact"
)

// Class tells what a failure means for the event that was being applied.
type Class string

// The classes.
const (
	// the database is short of something, or has been told to stop; the first retry comes after 1s, later
	// ones within a minute, and no attempt is counted
	ClassInfrastructure Class = "infrastructure"
	ClassTransient      Class = "transient" // another attempt may succeed
	// the projection as it is can never apply the event
	ClassPermanent Class = "permanent"
	// another session holds a row or table that it needs; the first retry comes after 1s, later ones
	// within 10s, and no attempt is counted
	ClassLock Class = "lock"
)

// Classify returns the class of a projection's failure. The Classify of the projection's [Spec] comes
// first; it returns "" for errors that it does not know. No class stops other projections, or this one
// for other campaigns. [ClassInfrastructure] and [ClassLock] cost no attempt. By SQLSTATE:
//
//   - lock: lock not available (55P03), deadlock (40P01)
//   - infrastructure: resources (53), operator intervention such as a cancelled statement (57), system
//     (58), read-only server (25006), idle transaction ended (25P03), and other transaction rollbacks
//     (40), which are tried again at once before they wait
//   - permanent: cardinality (21), data (22), constraints (23), program limits such as a row that is
//     too large for an index (54), CHECK OPTION (44), and those of 42 that no deployment mends: syntax
//     errors and mismatched types
//   - transient: all others, also those of another server that a statement asks: connection (08),
//     authorization (28), missing database (3D); limits such as temp_file_limit (53400); and objects
//     that are missing or forbidden in the schema (42P01, 42703, 42883, 42704, 42501, 3F000). A
//     deployment causes and soon mends the latter, and they concern all campaigns at once, so they
//     should not need an operator.
//
// Other errors: decoding errors ([event.DecodeError], encoding/json), [catalogue.ErrUnknownVersion],
// panics and errors marked by [Permanent] are permanent. A method FailureClass() Class of an error
// decides for it. All others are transient, also network errors and ended contexts: these come from a
// service that the projection talks to, or from a deadline of its own.
//
// A projection that exceeds its [Policy].Timeout has failed transiently. If the connection to Postgres
// has broken, the worker stops, or a statement of the projector's own fails, the group is repeated,
// whatever the error: that is no failure of a projection.
func Classify(err error) Class { return classify.Of[Class](err) }

// Permanent marks an error as permanent: the campaign is dead at once, unless a policy says
// otherwise. It returns nil and errors of the database or the network unchanged.
func Permanent(err error) error {
	if err == nil || classify.IsInfrastructure[Class](err) {
		return err
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string       { return e.err.Error() }
func (e *permanentError) Unwrap() error       { return e.err }
func (e *permanentError) FailureClass() Class { return ClassPermanent }

// ApplyError names the event that a projection could not apply. It wraps the cause.
type ApplyError struct {
	Projection string
	CampaignID string
	Seq        int64 // 0: no single event
	EventType  string
	Err        error
}

func (e *ApplyError) Error() string {
	if e.Seq == 0 {
		return fmt.Sprintf("projection %s: %v", e.Projection, e.Err)
	}
	return fmt.Sprintf("projection %s: event %d (%s) of campaign %q: %v", e.Projection, e.Seq, e.EventType, e.CampaignID,
		e.Err)
}

func (e *ApplyError) Unwrap() error { return e.Err }

// Redacted returns the message without values of events, for logs and readers who may not see payloads.
func (e *ApplyError) Redacted() string {
	shown := *e
	shown.Err = errors.New(redact.Safe(e.Err))
	return shown.Error()
}

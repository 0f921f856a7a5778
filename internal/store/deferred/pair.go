package deferred

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Errors of acts on one pair.
var (
	// ErrNotFound: the pair is not deferred; it may have caught up meanwhile. Returned by [Show],
	// [Requeue], [RequeueSeq], [Retry] and [Resolve].
	ErrNotFound = errors.New("no such deferred pair")
	// ErrConflict: the pair is deferred, but not as the act has it. Returned by [Requeue], [Retry] and [Resolve].
	ErrConflict = errors.New("deferred pair has changed")
)

// Status says how it stands with a pair.
type Status string

// The statuses.
const (
	Failed     Status = "failed"     // the projection could not apply the event; a retry is due at NextAttemptAt
	Dead       Status = "dead"       // as Failed, but it waits for an operator or a second chance
	Rebuilding Status = "rebuilding" // the projection is catching up with the campaign
)

// Statuses answers all statuses.
func Statuses() []Status { return []Status{Failed, Dead, Rebuilding} }

// Key names a pair: a projection in a campaign.
type Key struct {
	Projection string
	CampaignID string
}

func (k Key) String() string {
	return fmt.Sprintf("projection %s of campaign %q", k.Projection, k.CampaignID)
}

func (k Key) validate() error {
	return errors.Join(text("Projection", k.Projection, fieldBytes), text("CampaignID", k.CampaignID, fieldBytes))
}

// Pair is a projection that is behind its consumer group in a campaign: the row of
// tidemark.deferred. From EventID on, but for Reset and SecondChances, the fields are about the
// failure at event NextSeq, and zero where that event has not failed.
type Pair struct {
	Key
	Group         string     // consumer group
	Version       int        // of the projection that failed; 0: unknown
	NextSeq       int64      // the event it stands before
	Status        Status     //
	Attempts      int        // failures at that event since it was last requeued
	NextAttemptAt time.Time  // when a worker tries next; zero: when an operator says so
	EventID       *uuid.UUID // nil: unknown
	EventType     string     //
	Class         string     // infrastructure, transient, permanent or lock
	Code          string     // a SQLSTATE, panic, deadline, crash, decode or error
	Message       string     // at most 4 KiB
	Fingerprint   string     // the same for messages that differ in numbers and names alone
	FirstFailedAt *time.Time // nil: never
	LastFailedAt  *time.Time // nil: never
	Worker        string     // that failed last
	Reset         bool       // its rows are deleted before the next event is applied
	SecondChances int        // that it has had since it died
}

// Place answers where the pair stands in the order of [List].
func (p Pair) Place() Place {
	return Place{NextAttemptAt: p.NextAttemptAt, NextSeq: p.NextSeq, Key: p.Key}
}

// Place is a place in the order of [List]: by NextAttemptAt (zero comes last), NextSeq, campaign, projection.
type Place struct {
	NextAttemptAt time.Time
	NextSeq       int64
	Key
}

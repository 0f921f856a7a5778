package failed

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/slice"
)

// Failure describes an event that a projection could not apply. Its texts contain no values of the event.
type Failure struct {
	Group       string
	Projection  string
	Version     int // of the projection
	CampaignID  string
	Seq         int64
	EventID     uuid.UUID
	EventType   string
	Class       string // infrastructure, transient, permanent, lock
	Code        string // a SQLSTATE, or panic, deadline, crash, decode, error
	Message     string
	Stack       string // of a panic; "" for none
	Fingerprint string // see [Fingerprint]
	Worker      string
	Reset       bool // deleting the campaign's rows failed, before the event: the deletion must run again
}

// Schedule decides when a failed campaign is retried.
type Schedule struct {
	Dead     bool            // dead at once, no retry
	Attempts int             // the campaign is dead after this many failures
	Waits    []time.Duration // after the first failure, the second …; the last one repeats
	// the failure does not count as an attempt: neither event nor projection caused it. Waits has the
	// shortest and the longest wait.
	Free bool
}

// Outcome is the new state of a failed campaign.
type Outcome struct {
	Status      Status    // [Failed] or [Dead]
	Attempt     int       // failures at the event so far
	NextAttempt time.Time // zero: when an operator asks for it
}

// Defer queues on batch the failure f of a campaign and its row in the failure log. Attempts count
// per event: a first failure at an event counts one, and an earlier failed event leaves a row
// 'recovered'. done is called after the statement has run. The caller holds the campaign's lease.
func Defer(batch *pgx.Batch, f Failure, s Schedule, done func(Outcome)) {
	args := append(f.args(), s.Dead, s.Attempts, seconds(s.Waits), f.Reset, s.Free)
	batch.Queue(queryDefer, args...).QueryRow(func(row pgx.Row) error {
		var o Outcome
		var next *time.Time
		if err := row.Scan(&o.Status, &o.Attempt, &next); err != nil {
			return err
		}
		if next != nil {
			o.NextAttempt = *next
		}
		done(o)
		return nil
	})
}

// Skip queues on batch that a projection skips the event of f, and why. A campaign that failed at
// the event no longer counts as failed. The caller holds the campaign's lease.
func Skip(batch *pgx.Batch, f Failure, reason string) {
	batch.Queue(querySkip, append(f.args(), reason)...)
}

// args returns the parameters $1 to $13 of the statements about a failure.
func (f Failure) args() []any {
	stack := &f.Stack
	if f.Stack == "" {
		stack = nil
	}
	return []any{
		f.Group, f.Projection, f.Version, f.CampaignID, f.Seq, f.EventID.String(), f.EventType, f.Class, f.Code, f.Message,
		stack, f.Fingerprint, f.Worker,
	}
}

func seconds(waits []time.Duration) []float64 { return slice.Of(waits, time.Duration.Seconds) }

package failed

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Failure is what is kept of an event that a projection could not apply. Its texts have no values of the event in them.
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
	Reset       bool // what failed is the deletion of the campaign's rows, ahead of the event: it is to be done again
}

// Schedule says when a pair is tried again.
type Schedule struct {
	Dead     bool            // never: it is dead at once
	Attempts int             // the failure that makes it dead
	Waits    []time.Duration // after the first failure, the second …; the last one also after all further ones
	// the failure counts no attempt: it was no fault of the event's, nor of the projection's
	Free bool
}

// Outcome is what became of a pair.
type Outcome struct {
	Status      Status    // [Failed] or [Dead]
	Attempt     int       // how often it has failed at the event
	NextAttempt time.Time // zero: when an operator says so
}

// Defer queues on batch that a pair stands before the event of f, which has failed once more, and
// the row of the failure log that says so. A first failure at an event counts one, whatever
// happened at the events before it; a pair that had failed at one of those leaves a row
// 'recovered'. done is called when the statement has run. The caller holds the campaign's lease.
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

// Skip queues on batch that a projection goes on without the event of f, and why. A pair that
// stands there has not failed any more. The caller holds the campaign's lease.
func Skip(batch *pgx.Batch, f Failure, reason string) {
	batch.Queue(querySkip, append(f.args(), reason)...)
}

// args are the parameters $1 to $13 of the statements about a failure.
func (f Failure) args() []any {
	return []any{
		f.Group, f.Projection, f.Version, f.CampaignID, f.Seq, f.EventID.String(), f.EventType, f.Class, f.Code, f.Message,
		nullable(f.Stack), f.Fingerprint, f.Worker,
	}
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func seconds(waits []time.Duration) []float64 {
	s := make([]float64, len(waits))
	for i, w := range waits {
		s[i] = w.Seconds()
	}
	return s
}

package journal

import (
	"context"
	"time"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// Scheduled is the answer of [Journal.AppendAt].
type Scheduled struct {
	ID        int64     // for [Cancel] and [Reschedule]; 0: the events are in the journal already
	DueAt     time.Time // due time of the first call, or the one it was moved to; zero without an ID
	Duplicate bool      // an earlier call scheduled these events, or they were appended
}

// AppendAt schedules an append of events to a campaign. A worker makes it, exactly once, when it is
// due by the database's clock; if due is past, at once. The row commits with the caller's
// transaction. The call waits only for an open transaction that schedules the same first ID: 10 s, or the
// session's lock_timeout (SQLSTATE 55P03). [Cancel] and [Reschedule] take the row's ID.
//
// A call that is repeated with the same event IDs changes nothing and returns the first call's ID and
// due time, also if it gives another time. [Reschedule] changes the time.
//
// A campaign's scheduled appends are made in the order of (due, id). Where the campaign then stands
// is not known, so there is no [Expect]. Events are checked now, as by [Journal.Append], and get
// their IDs now. An append that is refused all the same, e.g. after a change of limits, is tried
// again and holds back no other.
//
// Errors: [*InvalidEventError], also for a due time outside the years 1 to 9999 and for no events,
// [ErrEventIDReused], [ErrPartlyAppended], and [ErrStaleSnapshot] under REPEATABLE READ and SERIALIZABLE.
func (j Journal) AppendAt(
	ctx context.Context, tx Tx, campaignID string, due time.Time, events ...event.Event,
) (Scheduled, error) {
	doc, err := j.encode(ctx, tx, campaignID, events)
	if err != nil {
		return Scheduled{}, err
	}
	var s Scheduled
	var dueAt *time.Time
	err = one(ctx, tx, []any{&s.ID, &dueAt, &s.Duplicate}, queryAppendAt, campaignID, due, doc)
	if err != nil {
		return Scheduled{}, appendError(campaignID, err)
	}
	if dueAt != nil {
		s.DueAt = *dueAt
	}
	return s, nil
}

// Cancel deletes an append that [Journal.AppendAt] has scheduled. It returns false if the append has been
// made or cancelled before, or if other calls have appended its first event. It waits while a worker
// makes the append, or another transaction cancels or moves it: 10 s, or the session's lock_timeout
// (SQLSTATE 55P03). Until the caller's transaction ends, the campaign's later appends wait.
func Cancel(ctx context.Context, tx Tx, id int64) (cancelled bool, err error) {
	err = one(ctx, tx, []any{&cancelled}, queryCancel, id)
	return cancelled, appendError("", err)
}

// Rescheduled is the answer of [Reschedule].
type Rescheduled struct {
	Done     bool      // false: it was made or cancelled before, or other calls have appended its first event
	ID       int64     // of the append
	DueAt    time.Time // its due time; zero if it was not moved
	WasDueAt time.Time // its due time before; zero if it was not moved
}

// Reschedule gives an append that [Journal.AppendAt] has scheduled another due time. If that is past, it is
// due at once. Its events and its ID stay, and a refused append begins anew. Either a worker has made the append at the
// old time, or Done is true and it is made at the new one. Reschedule waits as [Cancel] does, and so do the
// campaign's later appends.
//
// Errors: [*InvalidEventError] for a due time outside the years 1 to 9999.
func Reschedule(ctx context.Context, tx Tx, id int64, due time.Time) (Rescheduled, error) {
	m := Rescheduled{ID: id}
	var dueAt, wasDueAt *time.Time
	if err := one(ctx, tx, []any{&m.Done, &dueAt, &wasDueAt}, queryReschedule, id, due); err != nil {
		return Rescheduled{}, appendError("", err)
	}
	if m.Done {
		m.DueAt, m.WasDueAt = *dueAt, *wasDueAt
	}
	return m, nil
}

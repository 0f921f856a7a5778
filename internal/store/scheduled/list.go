package scheduled

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// ErrNotFound is returned by [Show], [Cancel] and [Reschedule] for an append that was made, cancelled, or never
// scheduled.
var ErrNotFound = errors.New("no such scheduled append: it was made, cancelled, or never scheduled")

// Append is an append that is to be made.
type Append struct {
	ID          int64
	CampaignID  string
	DueAt       time.Time
	AttemptAt   time.Time // later than DueAt after a refusal
	Events      int
	EventType   string // of the first
	ScheduledAt time.Time
	ScheduledBy string // "": an application
	Attempts    int    // that were refused
	Error       string // of the last one
}

// Place is the append's place in a list.
func (a Append) Place() Place { return Place{a.AttemptAt, a.ID} }

// Filter selects appends. Empty fields match any.
type Filter struct {
	CampaignID string
	Refused    bool
	After      *Place
	Limit      int
}

// List lists appends in the order in which they are tried.
func List(ctx context.Context, db rows.Querier, f Filter) ([]Append, error) {
	at, id := f.After.columns()
	query, args := queryList, []any{at, id, f.Limit}
	switch {
	case f.CampaignID != "":
		query, args = queryListOf, append(args, f.CampaignID, f.Refused)
	case f.Refused:
		query = queryListRefused
	}
	return rows.All(ctx, db, pgx.RowToStructByPos[Append], "list scheduled appends", query, args...)
}

// Show returns one append and its events, up to 100. Bare leaves out payloads and metadata, and so do
// events beyond 4 MiB.
func Show(ctx context.Context, db rows.Querier, id int64, bare bool) (a Append, events []event.Event, err error) {
	a, err = rows.One(ctx, db, pgx.RowToStructByPos[Append], "", queryShow, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return a, nil, fmt.Errorf("scheduled append %d: %w", id, ErrNotFound)
	}
	if err != nil {
		return a, nil, fmt.Errorf("show a scheduled append: %w", err)
	}
	var e event.Event
	var occurred *time.Time
	err = rows.Each(ctx, db, []any{
		&e.ID, &e.Type, &e.Version, &e.Intent, &e.AggregateType, &e.AggregateID, &e.Actor, &e.Tags, &e.Payload,
		&e.Metadata, &occurred,
	}, func() {
		if e.CampaignID, e.OccurredAt = a.CampaignID, (time.Time{}); occurred != nil {
			e.OccurredAt = *occurred
		}
		events = append(events, e)
	}, "show a scheduled append", queryEvents, id, bare)
	return a, events, err
}

// Actor is the operator who cancels or moves, for the operators' log.
type Actor struct {
	Name, Reason, Way string
	TokenID           int64
	Address           string
}

// Cancel deletes an append, writes that to the operators' log, and returns it. If a worker is making
// it, Cancel waits for the outcome.
func Cancel(ctx context.Context, tx pgx.Tx, id int64, by Actor) (Append, error) {
	a, _, err := Show(ctx, tx, id, true)
	if err != nil {
		return a, err
	}
	cancelled, err := rows.One(ctx, tx, pgx.RowTo[bool], "cancel a scheduled append", queryCancel, id,
		by.Name, by.Reason, by.Way, by.TokenID, by.Address)
	if err == nil && !cancelled {
		err = fmt.Errorf("scheduled append %d: %w", id, ErrNotFound)
	}
	return a, err
}

// Reschedule moves an append to another time, writes that to the operators' log, and returns the append as it
// was. If a worker is making it, Reschedule waits for the outcome.
func Reschedule(ctx context.Context, tx pgx.Tx, id int64, due time.Time, by Actor) (Append, error) {
	a, _, err := Show(ctx, tx, id, true)
	if err != nil {
		return a, err
	}
	var moved bool
	err = rows.Each(ctx, tx, []any{&moved, &a.DueAt}, func() {}, "move a scheduled append", queryReschedule, id, due,
		by.Name, by.Reason, by.Way, by.TokenID, by.Address)
	if err == nil && !moved {
		err = fmt.Errorf("scheduled append %d: %w", id, ErrNotFound)
	}
	return a, err
}

package waiter

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// The states of a projection with regard to an event.
const (
	applied      = "applied"
	waiting      = "waiting"
	Failed       = "failed"       // it failed at an event and will try again
	Dead         = "dead"         // it failed at an event and waits for an operator
	Paused       = "paused"       // an operator or a policy has paused it, its group or the campaign
	Unregistered = "unregistered" // no worker has registered a projection of that name
	Replaced     = "replaced"     // the append was rolled back or lost, and another event may have its seq
)

// NotAppliedError says why a projection will not apply an event soon.
type NotAppliedError struct {
	Projection string
	CampaignID string
	Seq        int64  // the event that was waited for
	Status     string // [Failed], [Dead], [Paused], [Unregistered] or [Replaced]
	At         int64  // for Failed and Dead: the seq that it fails at, the position across campaigns
	Message    string // the failure, without values of events, or who paused it
}

// Error names the projection, the event, the reason and the remedy.
func (e *NotAppliedError) Error() string {
	what := fmt.Sprintf("projection %s has not applied event %d of campaign %q: ", e.Projection, e.Seq, e.CampaignID)
	switch e.Status {
	case Unregistered:
		return what + "it is not registered: start a worker that has it, or correct the name"
	case Replaced:
		return what + "the append was rolled back, or a failover, a restore or a crash took it: wait only after the " +
			"commit, and append again what is lost"
	case Paused:
		return what + e.Message + ": resume it"
	case Failed:
		return what + fmt.Sprintf("it failed at event %d and will try again: %s", e.At, e.Message)
	}
	return what + fmt.Sprintf("it is dead at event %d: %s: repair the cause, then tidemark failed requeue %s %s", e.At,
		e.Message, e.Projection, e.CampaignID)
}

// place is where a projection stands with regard to an event.
type place struct {
	State   string
	At      int64
	Message string
	ID      *uuid.UUID // of the event that has the seq; nil: it is not in the journal
}

func (p place) refusal(e event) error {
	if p.State == applied || p.State == waiting {
		return nil
	}
	return &NotAppliedError{e.projection, e.CampaignID, e.Seq, p.State, p.At, p.Message}
}

// present is the history of the journal.
type present struct {
	history string
	shared  int64 // up to here the journal has the events that it had in the history before
}

// look asks to be notified and then reads the places, in one round trip. before is the history of the last
// look; "": there was none.
func look(ctx context.Context, conn *pgx.Conn, events []event, before string) (places []place, now present, err error) {
	campaigns, projections := make([]string, len(events)), make([]string, len(events))
	seqs, positions := make([]int64, len(events)), make([]int64, len(events))
	for i, e := range events {
		campaigns[i], seqs[i], positions[i], projections[i] = e.CampaignID, e.Seq, e.Position, e.projection
	}
	var batch pgx.Batch
	batch.Queue(queryAwait, notify.Milliseconds())
	batch.Queue(queryApplied, campaigns, seqs, positions, projections).
		Query(rows.Into(&places, pgx.RowToStructByPos[place]))
	batch.Queue(queryHistory, before).QueryRow(func(row pgx.Row) error { return row.Scan(&now.history, &now.shared) })
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, now, fmt.Errorf("look where projections stand: %w", err)
	}
	return places, now, nil
}

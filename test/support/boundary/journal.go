package boundary

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Journal is the Store over the Go API.
type Journal struct {
	Pool *pgxpool.Pool

	// Wild uses any isolation level and sometimes rolls back. Otherwise transactions are READ
	// COMMITTED.
	Wild bool
}

var errGaveUp = errors.New("the writer changed its mind")

// Read returns the events themselves as the decision.
func (s Journal) Read(ctx context.Context, q event.Query) ([]event.Event, journal.Condition, error) {
	return journal.Decide(ctx, s.Pool, q, func(events *[]event.Event, e event.Event) error {
		*events = append(*events, e)
		return nil
	})
}

// Append appends in a transaction of its own.
func (s Journal) Append(ctx context.Context, events []event.Event, condition *journal.Condition) error {
	var options pgx.TxOptions
	giveUp := false
	if s.Wild {
		options.IsoLevel = []pgx.TxIsoLevel{
			pgx.ReadCommitted, pgx.ReadCommitted, pgx.RepeatableRead,
			pgx.Serializable,
		}[rand.IntN(4)]
		giveUp = rand.IntN(10) == 0
	}
	err := pgx.BeginTxFunc(ctx, s.Pool, options, func(tx pgx.Tx) error {
		if condition != nil {
			if _, err := (journal.Journal{}).AppendIf(ctx, tx, events, *condition); err != nil {
				return err
			}
		} else {
			for _, e := range events {
				if _, err := (journal.Journal{}).AppendAll(ctx, tx, journal.Batch{
					CampaignID: e.CampaignID,
					Events:     []event.Event{e},
				}); err != nil {
					return err
				}
			}
		}
		if giveUp {
			return errGaveUp
		}
		return nil
	})
	var state interface{ SQLState() string }
	deadlocked := errors.As(err, &state) && (state.SQLState() == "40P01" || state.SQLState() == "40001")
	if deadlocked || errors.Is(err, journal.ErrStaleSnapshot) || errors.Is(err, errGaveUp) {
		return fmt.Errorf("%w: %w", ErrNothing, err)
	}
	return err
}

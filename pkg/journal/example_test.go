package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// The event commits with the rest of the transaction, or not at all.
func ExampleJournal_Append() {
	heal := func(ctx context.Context, pool *pgxpool.Pool, campaign, character string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "UPDATE potions SET left = left - 1 WHERE owner = $1", character); err != nil {
				return err
			}
			_, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Any,
				event.Event{Type: "character_healed", AggregateID: character, Payload: json.RawMessage(`{"points": 5}`)})
			return err
		})
	}
	_ = heal
}

// The invoice event names the order event as its cause.
func ExampleWithCause() {
	invoice := func(ctx context.Context, tx pgx.Tx, placed event.Event) error {
		ctx = journal.WithCause(ctx, placed)
		_, err := journal.Journal{}.Append(ctx, tx, "invoice-7", journal.Any, event.Event{Type: "invoice_sent"})
		return err
	}
	_ = invoice
}

// An append that depends on a read expects the seq it read up to. If the campaign has moved on, it
// decides again.
func ExampleExactly() {
	const (
		SessionStarted event.Type[struct{}] = "session_started"
		SessionEnded   event.Type[struct{}] = "session_ended"
	)
	running := event.Folds[bool]{
		event.On(SessionStarted, func(running *bool, _ event.Event, _ struct{}) error { *running = true; return nil }),
		event.On(SessionEnded, func(running *bool, _ event.Event, _ struct{}) error { *running = false; return nil }),
	}
	end := func(ctx context.Context, pool *pgxpool.Pool, campaign string) error {
		id := uuid.Must(uuid.NewV7()) // one id for all attempts, also after a COMMIT whose reply was lost
		for {
			is, seq, err := journal.Load(ctx, pool, campaign, running.Fold)
			if err != nil || !is {
				return errors.Join(err, errors.New("no session is running"))
			}
			err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Exactly(seq), event.Event{ID: id, Type: SessionEnded.Name()})
				return err
			})
			if !errors.Is(err, journal.ErrVersionConflict) {
				return err
			}
		}
	}
	_ = end
}

// A reader of the whole journal keeps the last position it has seen.
func ExampleReadAll() {
	follow := func(ctx context.Context, pool *pgxpool.Pool, after int64) (int64, error) {
		for e, err := range journal.ReadAll(ctx, pool, after) {
			if err != nil {
				return after, err
			}
			fmt.Println(e.Position, e.CampaignID, e.Seq, e.Type)
			after = e.Position
		}
		return after, nil
	}
	_ = follow
}

package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// inTransaction runs the body of an example in a transaction.
func inTransaction(body func(ctx context.Context, tx pgx.Tx) error) {
	err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return body(ctx, tx) })
	})
	if err != nil {
		_, _ = fmt.Fprintln(os.Stdout, err)
	}
}

// A seat is sold once, though no campaign has all seats: the decision reads by tag, and the append fails if
// the seat was sold since.
func ExampleDecide() {
	inTransaction(func(ctx context.Context, tx pgx.Tx) error {
		sell := func(order string) error {
			sold, condition, err := journal.Decide(ctx, tx, event.Tagged([]string{"seat=12A"}),
				func(n *int, _ event.Event) error { *n++; return nil })
			if err != nil {
				return err
			}
			if sold > 0 {
				return errors.New("the seat is sold")
			}
			e := event.Event{CampaignID: order, Type: "seat_sold", Tags: []string{"seat=12A"}}
			_, err = journal.Journal{}.AppendIf(ctx, tx, []event.Event{e}, condition)
			return err
		}
		fmt.Println(sell("order-1"))
		fmt.Println(sell("order-2"))
		return nil
	})
	// Output:
	// <nil>
	// the seat is sold
}

// An append whose condition does not hold any more adds nothing, and its transaction has to be rolled back.
func ExampleJournal_AppendIf() {
	unsold := journal.Condition{FailIfMatch: event.Tagged([]string{"seat=12A"})}
	sell := func(ctx context.Context, pool *pgxpool.Pool, order string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			e := event.Event{CampaignID: order, Type: "seat_sold", Tags: []string{"seat=12A"}}
			_, err := journal.Journal{}.AppendIf(ctx, tx, []event.Event{e}, unsold)
			return err
		})
	}
	err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		fmt.Println(sell(ctx, pool, "order-1"))
		fmt.Println(errors.Is(sell(ctx, pool, "order-2"), journal.ErrConditionFailed))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// true
}

// The state of a campaign, and the seq to append at.
func ExampleLoad() {
	inTransaction(func(ctx context.Context, tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(ctx, tx, "room-1", journal.Any, event.Event{Type: "entered"}, event.Event{Type: "entered"},
			event.Event{Type: "left"})
		if err != nil {
			return err
		}
		people, seq, err := journal.Load(ctx, tx, "room-1", func(n *int, e event.Event) error {
			if *n++; e.Type == "left" {
				*n -= 2
			}
			return nil
		})
		fmt.Println(people, seq)
		if err != nil {
			return err
		}
		_, err = journal.Journal{}.Append(ctx, tx, "room-1", journal.Exactly(seq), event.Event{Type: "locked"})
		return err
	})
	// Output: 1 3
}

// The events of a campaign, in order.
func ExampleReadCampaign() {
	inTransaction(func(ctx context.Context, tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(ctx, tx, "room-1", journal.Any, event.Event{Type: "entered"}, event.Event{Type: "left"})
		if err != nil {
			return err
		}
		for e, err := range journal.ReadCampaign(ctx, tx, "room-1", 0) {
			if err != nil {
				return err
			}
			fmt.Println(e.Seq, e.Type)
		}
		return nil
	})
	// Output:
	// 1 entered
	// 2 left
}

// One event, by its seq or as the last one.
func ExampleGet() {
	inTransaction(func(ctx context.Context, tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(ctx, tx, "room-1", journal.Any, event.Event{Type: "entered"}, event.Event{Type: "left"})
		if err != nil {
			return err
		}
		first, err := journal.Get(ctx, tx, "room-1", 1)
		if err != nil {
			return err
		}
		last, err := journal.Last(ctx, tx, "room-1")
		fmt.Println(first.Type, last.Type)
		_, none := journal.Get(ctx, tx, "room-1", 3)
		fmt.Println(errors.Is(none, event.ErrNotFound))
		return err
	})
	// Output:
	// entered left
	// true
}

// A reminder that comes in three days, unless it is cancelled.
func ExampleCancel() {
	inTransaction(func(ctx context.Context, tx pgx.Tx) error {
		scheduled, err := journal.Journal{}.AppendAt(ctx, tx, "order-1", time.Now().Add(72*time.Hour),
			event.Event{Type: "reminder_due"})
		if err != nil {
			return err
		}
		cancelled, err := journal.Cancel(ctx, tx, scheduled.ID)
		fmt.Println(cancelled)
		return err
	})
	// Output: true
}

// Events of several campaigns in one call: all are locked in one order, so two such calls never deadlock.
func ExampleJournal_AppendAll() {
	inTransaction(func(ctx context.Context, tx pgx.Tx) error {
		appended, err := journal.Journal{}.AppendAll(ctx, tx,
			journal.Batch{CampaignID: "wallet-1", Events: []event.Event{{Type: "sent"}}},
			journal.Batch{CampaignID: "wallet-2", Events: []event.Event{{Type: "received"}}})
		for _, a := range appended {
			fmt.Println(a.CampaignID, a.Seq)
		}
		return err
	})
	// Output:
	// wallet-1 1
	// wallet-2 1
}

// Without a transaction of your own: append, commit, and have the token to wait with.
func ExampleJournal_Commit() {
	err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		places, err := journal.Journal{}.Commit(ctx, pool,
			journal.Batch{CampaignID: "room-1", Events: []event.Event{{Type: "entered"}, {Type: "left"}}})
		if err != nil {
			return err
		}
		token, err := journal.ParseToken(places[1].Token())
		fmt.Println(token.CampaignID, token.Seq)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: room-1 2
}

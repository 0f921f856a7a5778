package projector_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// Wallet is the document of a wallet.
type Wallet struct {
	Balance int `json:"balance"`
}

// Paid is the payload of both types.
type Paid struct {
	Amount int `json:"amount"`
}

const (
	Deposited event.Type[Paid] = "deposited"
	Withdrawn event.Type[Paid] = "withdrawn"
)

func wallets() projection.Document[Wallet] {
	return projection.Document[Wallet]{
		Name: "wallets", Version: 1,
		On: event.Folds[Wallet]{
			event.On(Deposited, func(w *Wallet, _ event.Event, p Paid) error { w.Balance += p.Amount; return nil }),
			event.On(Withdrawn, func(w *Wallet, _ event.Event, p Paid) error { w.Balance -= p.Amount; return nil }),
		},
	}
}

// appendTo appends events to a campaign, in a transaction of its own.
func appendTo(ctx context.Context, pool *pgxpool.Pool, campaign string, events ...event.Event) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Any, events...)
		return err
	})
}

// example applies three events of a wallet, and calls show.
func example(show func(ctx context.Context, pool *pgxpool.Pool, p *projector.Projector) error) {
	err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		p, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{wallets()}})
		if err != nil {
			return err
		}
		if err := p.Register(ctx); err != nil {
			return err
		}
		err = appendTo(ctx, pool, "wallet-1", Deposited.New(Paid{100}), Withdrawn.New(Paid{30}), Deposited.New(Paid{5}))
		if err != nil {
			return err
		}
		if _, err := p.Drain(ctx); err != nil {
			return err
		}
		return show(ctx, pool, p)
	})
	if err != nil {
		_, _ = fmt.Fprintln(os.Stdout, err)
	}
}

// A program makes a projector for its read models. A service calls Run, a test Drain.
func ExampleNew() {
	err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		p, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{wallets()}})
		if err != nil {
			return err
		}
		if err := appendTo(ctx, pool, "wallet-1", Deposited.New(Paid{100}), Withdrawn.New(Paid{30})); err != nil {
			return err
		}
		applied, err := p.Drain(ctx)
		if err != nil {
			return err
		}
		wallet, found, err := wallets().Get(ctx, pool, "wallet-1")
		fmt.Println(applied, wallet.Balance, found)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 2 70 true
}

// Read models as of an event: also of one that is long past.
func ExampleProjector_AsOf() {
	example(func(ctx context.Context, _ *pgxpool.Pool, p *projector.Projector) error {
		state, err := p.AsOf(ctx, "wallets", "wallet-1", 2)
		if err != nil {
			return err
		}
		fmt.Println(state.Seq, state.Tables[0].Table, string(state.Tables[0].Rows[0]))
		return nil
	})
	// Output: 2 wallets {"doc": {"balance": 70}, "key": "-", "campaign_id": "wallet-1"}
}

// What changed between two events.
func ExampleProjector_Diff() {
	example(func(ctx context.Context, _ *pgxpool.Pool, p *projector.Projector) error {
		changes, err := p.Diff(ctx, "wallets", "wallet-1", 1, 3)
		for _, c := range changes {
			fmt.Println(c.Kind, c.Table, c.Columns)
		}
		return err
	})
	// Output: changed wallets [doc]
}

// Which event wrote a row's columns.
func ExampleProjector_Why() {
	example(func(ctx context.Context, _ *pgxpool.Pool, p *projector.Projector) error {
		why, err := p.Why(ctx, lookback.WhyRequest{Projection: "wallets", CampaignID: "wallet-1", Key: []string{"-"}})
		for _, cause := range why.Causes {
			fmt.Println(cause.Column, cause.Event.Seq, cause.Event.Type)
		}
		return err
	})
	// Output:
	// campaign_id 1 deposited
	// key 1 deposited
	// doc 3 deposited
}

// Verify finds a row that was changed by hand.
func ExampleProjector_Verify() {
	example(func(ctx context.Context, pool *pgxpool.Pool, p *projector.Projector) error {
		if _, err := pool.Exec(ctx, `UPDATE tidemark_views.wallets SET doc = '{"balance": 1000000}'`); err != nil {
			return err
		}
		report, err := p.Verify(ctx, lookback.VerifyRequest{
			Projection: "wallets", All: true,
			OnDifference: func(d lookback.Difference) { fmt.Println(d.Kind, d.CampaignID, d.Columns) },
		})
		fmt.Println(report.Campaigns, report.Differences())
		return err
	})
	// Output:
	// different wallet-1 [doc]
	// 1 1
}

// The read model shows an event as soon as its transaction commits.
func ExampleProjector_ApplyInline() {
	example(func(ctx context.Context, pool *pgxpool.Pool, p *projector.Projector) error {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			appended, err := journal.Journal{}.Append(ctx, tx, "wallet-2", journal.Any, Deposited.New(Paid{7}))
			if err != nil {
				return err
			}
			return p.ApplyInline(ctx, tx, appended...)
		})
		if err != nil {
			return err
		}
		wallet, _, err := wallets().Get(ctx, pool, "wallet-2")
		fmt.Println(wallet.Balance)
		return err
	})
	// Output: 7
}

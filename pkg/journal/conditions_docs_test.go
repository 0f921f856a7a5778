package journal_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

var errOverdrawn = errors.New("the wallet holds less")

// foldFunds adds up the balance of a wallet.
func foldFunds(funds *int, e event.Event) error {
	moved, err := event.Decode[struct{ Amount int }](e)
	if e.Type == "funds_deposited" {
		*funds += moved.Amount
	} else {
		*funds -= moved.Amount
	}
	return err
}

// withdraw is a snippet of docs/guides/conditions.md.
func withdraw(ctx context.Context, pool *pgxpool.Pool, amount int, payload json.RawMessage) error {
	balance := event.Tagged([]string{"wallet=7"}, "wallet_opened", "funds_deposited", "funds_withdrawn",
		"funds_transferred")
	either := balance.Or(event.Types("bank_holiday_declared"))
	_ = either
	_, err := journal.Journal{}.CommitIf(ctx, pool,
		func(ctx context.Context, db event.Querier) ([]event.Event, journal.Condition, error) {
			funds, condition, err := journal.Decide(ctx, db, balance, foldFunds)
			if err != nil || funds < amount {
				return nil, condition, cmp.Or(err, errOverdrawn)
			}
			return []event.Event{{
				CampaignID: "wallet-7", Type: "funds_withdrawn", Tags: []string{"wallet=7"},
				Payload: payload,
			}}, condition, nil
		})
	return err
}

func TestTheDecisionOfTheDocs(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	amount := json.RawMessage(`{"Amount": 3}`)
	mustAppendIf(t, pool, always(), event.Event{
		CampaignID: "wallet-7", Type: "funds_deposited",
		Tags: []string{"wallet=7"}, Payload: json.RawMessage(`{"Amount": 5}`),
	})
	if err := withdraw(t.Context(), pool, 3, amount); err != nil {
		t.Error(err)
	}
	if err := withdraw(t.Context(), pool, 3, amount); !errors.Is(err, errOverdrawn) {
		t.Errorf("got %v", err)
	}
}

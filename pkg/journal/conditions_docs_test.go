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

type moved struct{ Cents int }

const (
	Deposited event.Type[moved] = "funds_deposited"
	Withdrawn event.Type[moved] = "funds_withdrawn"
)

// wallet adds up the cents of a wallet.
func wallet() event.Folds[int] {
	return event.Folds[int]{
		event.On(Deposited, func(cents *int, _ event.Event, m moved) error {
			*cents += m.Cents
			return nil
		}),
		event.On(Withdrawn, func(cents *int, _ event.Event, m moved) error {
			*cents -= m.Cents
			return nil
		}),
	}
}

// withdraw is a snippet of docs/guides/conditions.md.
func withdraw(ctx context.Context, pool *pgxpool.Pool, amount int) error {
	balance := event.Tagged([]string{"wallet=7"}, "funds_deposited", "funds_withdrawn")
	either := balance.Or(event.Types("bank_holiday_declared"))
	_ = either
	_, err := journal.Journal{}.CommitIf(ctx, pool,
		func(ctx context.Context, db event.Querier) ([]event.Event, journal.Condition, error) {
			funds, condition, err := journal.Decide(ctx, db, balance, wallet().Fold)
			if err != nil || funds < amount {
				return nil, condition, cmp.Or(err, errOverdrawn)
			}
			withdrawn := Withdrawn.New(moved{amount})
			withdrawn.CampaignID, withdrawn.Tags = "wallet-7", []string{"wallet=7"}
			return []event.Event{withdrawn}, condition, nil
		})
	return err
}

func TestTheDecisionOfTheDocs(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppendIf(t, pool, always(), event.Event{
		CampaignID: "wallet-7", Type: "funds_deposited",
		Tags: []string{"wallet=7"}, Payload: json.RawMessage(`{"Cents": 5}`),
	})
	if err := withdraw(t.Context(), pool, 3); err != nil {
		t.Error(err)
	}
	if err := withdraw(t.Context(), pool, 3); !errors.Is(err, errOverdrawn) {
		t.Errorf("got %v", err)
	}
}

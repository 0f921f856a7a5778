package decisions_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/examples/decisions"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const (
	tokenLife = time.Hour
	oldPrices = 10 * time.Minute // a price that was shown stays valid this long
)

var (
	errNoToken  = errors.New("there is no such token")
	errUsed     = errors.New("the token was used")
	errExpired  = errors.New("the token has expired")
	errPrice    = errors.New("that was not the price")
	errRepeated = errors.New("the order was placed already")
)

// token models one sign-up that waits for confirmation.
type token struct {
	issued time.Time
	used   bool
}

func confirm(ctx context.Context, pool *pgxpool.Pool, id string, now time.Time) error {
	k := journal.NewModel(event.Tagged([]string{"token=" + id}, "sign_up_initiated", "sign_up_confirmed"),
		func(k *token, e event.Event) error {
			if e.Type == "sign_up_initiated" {
				k.issued = e.OccurredAt
			}
			k.used = e.Type == "sign_up_confirmed"
			return nil
		})
	return decisions.Decide(ctx, pool, func() ([]event.Event, error) {
		switch {
		case k.State.issued.IsZero():
			return nil, errNoToken
		case k.State.used:
			return nil, errUsed
		case now.After(k.State.issued.Add(tokenLife)):
			return nil, errExpired
		}
		return []event.Event{decisions.Event("sign-ups", "sign_up_confirmed", nil, "token="+id)}, nil
	}, k)
}

func TestOptInTokensExpire(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	now := time.Now().Truncate(time.Second)
	for _, id := range []string{"1", "2"} {
		issued := decisions.Event("sign-ups", "sign_up_initiated", nil, "token="+id)
		issued.OccurredAt = now
		given(t, pool, issued)
	}
	expect(t, "in time", confirm(t.Context(), pool, "1", now.Add(tokenLife-time.Minute)), nil)
	expect(t, "again", confirm(t.Context(), pool, "1", now.Add(tokenLife-time.Minute)), errUsed)
	expect(t, "too late", confirm(t.Context(), pool, "2", now.Add(tokenLife+time.Minute)), errExpired)
	expect(t, "made up", confirm(t.Context(), pool, "3", now), errNoToken)
}

// price is a price of a product and when it took effect.
type price struct {
	amount int
	since  time.Time
}

// order buys a product at the price that the customer was shown. One model holds the product's
// prices. Another holds the orders of the customer's request, so that none is placed twice.
func order(ctx context.Context, pool *pgxpool.Pool, request, product string, shown int, now time.Time) error {
	prices := journal.NewModel(event.Tagged([]string{"product=" + product}, "price_set"),
		func(prices *[]price, e event.Event) error {
			amount, err := decisions.Number(e, "price")
			*prices = append(*prices, price{amount, e.OccurredAt})
			return err
		})
	placed := subscriptions(event.Tagged([]string{"request=" + request}, "product_ordered"))
	return decisions.Decide(ctx, pool, func() ([]event.Event, error) {
		if placed.State > 0 {
			return nil, errRepeated
		}
		for i, p := range prices.State {
			good := i == len(prices.State)-1 || now.Before(prices.State[i+1].since.Add(oldPrices))
			if p.amount == shown && good && !now.Before(p.since) {
				return []event.Event{decisions.Event("orders", "product_ordered", map[string]any{"price": shown}, "product="+
					product, "request="+request)}, nil
			}
		}
		return nil, errPrice
	}, prices, placed)
}

func TestPricesChangeAndOldOnesStayGoodForAWhile(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	now := time.Now().Truncate(time.Second)
	for i, amount := range []int{10, 12} {
		set := decisions.Event("catalogue", "price_set", map[string]any{"price": amount}, "product=lamp")
		set.OccurredAt = now.Add(time.Duration(i) * time.Hour)
		given(t, pool, set)
	}
	expect(t, "the price then", order(t.Context(), pool, "1", "lamp", 10, now.Add(time.Minute)), nil)
	expect(t, "the price now", order(t.Context(), pool, "2", "lamp", 12, now.Add(time.Hour)), nil)
	expect(t, "the old price, just after", order(t.Context(), pool, "3", "lamp", 10, now.Add(time.Hour+time.Minute)), nil)
	expect(t, "the old price, later", order(t.Context(), pool, "4", "lamp", 10, now.Add(time.Hour+oldPrices)), errPrice)
	expect(t, "a price of one's own", order(t.Context(), pool, "5", "lamp", 1, now), errPrice)
}

func TestARequestSentTwiceIsOneOrder(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	now := time.Now().Truncate(time.Second)
	given(t, pool, decisions.Event("catalogue", "price_set", map[string]any{"price": 10}, "product=lamp"))
	later := now.Add(time.Hour)
	expect(t, "once", order(t.Context(), pool, "1", "lamp", 10, later), nil)
	expect(t, "twice", order(t.Context(), pool, "1", "lamp", 10, later), errRepeated)
	expect(t, "another", order(t.Context(), pool, "2", "lamp", 10, later), nil)
}

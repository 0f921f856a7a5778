package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// The reasons to refuse a command.
var (
	errOpenAlready = errors.New("the wallet is open already")
	errNotOpen     = errors.New("there is no such wallet")
	errOverdraft   = errors.New("the wallet holds less than that")
	errAmount      = errors.New("the amount must be more than 0")
	errSameWallet  = errors.New("a transfer needs two wallets")
	errFull        = fmt.Errorf("the wallet would hold more than %d, which is the most: take some out first",
		int64(mostFunds))
)

// mostFunds is the maximum balance of a wallet, in cents. The balances of 9,000 full wallets still
// add up without overflow.
const mostFunds = 1_000_000_000_000_000

// The types of events. A transfer is one sent and one received, both tagged with both wallets.
const (
	opened    event.Type[moved] = "wallet_opened"
	deposited event.Type[moved] = "funds_deposited"
	withdrawn event.Type[moved] = "funds_withdrawn"
	sent      event.Type[moved] = "funds_sent"
	received  event.Type[moved] = "funds_received"
)

// The types of events that only requested transfers have.
const (
	requested event.Type[moved] = "transfer_requested"
	refused   event.Type[moved] = "transfer_refused"
	settled   event.Type[moved] = "transfer_settled"
)

// moved is the payload of all types.
type moved struct {
	Wallet   string `json:"wallet"`             // the wallet that the event belongs to
	Amount   int64  `json:"amount,omitempty"`   // in cents
	With     string `json:"with,omitempty"`     // the other wallet of a transfer
	Transfer string `json:"transfer,omitempty"` // id of the request that led to the event
	Owner    string `json:"owner,omitempty"`
}

// funds is the state of a wallet that decisions need.
type funds struct {
	Open    bool
	Balance int64
	Held    int64 // part of Balance that requested transfers are about to send
	Granted bool  // whether the latest request has found enough
}

// fundsOf selects the events of wallets. It selects none of other wallets, except transfers, which carry their
// tags too.
func fundsOf(wallets []string) (q event.Query) {
	for _, wallet := range wallets {
		q = q.Or(event.Tagged([]string{tag(wallet)}, funding().Types()...))
	}
	return q
}

// funding changes the funds by the events of a wallet. A request that finds enough holds the amount until it is
// sent. Decisions have it as well as transfers.
func funding() event.Folds[funds] {
	return event.Folds[funds]{
		event.On(opened, func(f *funds, _ event.Event, _ moved) error {
			f.Open = true
			return nil
		}),
		event.On(deposited, take),
		event.On(received, take),
		event.On(withdrawn, give),
		event.On(sent, give),
		event.On(requested, func(f *funds, _ event.Event, m moved) error {
			if f.Granted = m.Amount <= f.Balance-f.Held; f.Granted {
				f.Held += m.Amount
			}
			return nil
		}),
	}
}

func take(f *funds, _ event.Event, m moved) error {
	f.Balance += m.Amount
	return nil
}

func give(f *funds, _ event.Event, m moved) error {
	if f.Balance -= m.Amount; m.Transfer != "" {
		f.Held -= m.Amount
	}
	return nil
}

func tag(wallet string) string { return "wallet=" + wallet }

// wallets makes decisions about wallets.
type wallets struct {
	pool    *pgxpool.Pool
	journal journal.Journal
}

func (w wallets) open(ctx context.Context, wallet, owner string) error {
	return w.decide(ctx, []string{wallet}, func(f []funds) ([]event.Event, error) {
		if f[0].Open {
			return nil, errOpenAlready
		}
		return []event.Event{newEvent(opened, moved{Wallet: wallet, Owner: owner})}, nil
	})
}

func (w wallets) deposit(ctx context.Context, wallet string, amount int64) error {
	return w.decide(ctx, []string{wallet}, func(f []funds) ([]event.Event, error) {
		if err := f[0].admit(amount); err != nil {
			return nil, err
		}
		return []event.Event{newEvent(deposited, moved{Wallet: wallet, Amount: amount})}, nil
	})
}

func (w wallets) withdraw(ctx context.Context, wallet string, amount int64) error {
	return w.decide(ctx, []string{wallet}, func(f []funds) ([]event.Event, error) {
		if err := f[0].permit(amount); err != nil {
			return nil, err
		}
		return []event.Event{newEvent(withdrawn, moved{Wallet: wallet, Amount: amount})}, nil
	})
}

// transfer makes one decision about two wallets: two states, one read, one condition, one append.
func (w wallets) transfer(ctx context.Context, from, to string, amount int64) error {
	if from == to {
		return errSameWallet
	}
	return w.decide(ctx, []string{from, to}, func(f []funds) ([]event.Event, error) {
		if err := f[0].permit(amount); err != nil {
			return nil, err
		}
		if err := f[1].admit(amount); err != nil {
			return nil, err
		}
		return []event.Event{
			newEvent(sent, moved{Wallet: from, With: to, Amount: amount}),
			newEvent(received, moved{Wallet: to, With: from, Amount: amount}),
		}, nil
	})
}

// permit returns an error unless the wallet can give the amount away.
func (f funds) permit(amount int64) error {
	switch {
	case amount <= 0:
		return errAmount
	case !f.Open:
		return errNotOpen
	case f.Balance-f.Held < amount:
		return errOverdraft
	}
	return nil
}

// admit returns an error unless the wallet can take the amount in.
func (f funds) admit(amount int64) error {
	switch {
	case amount <= 0:
		return errAmount
	case !f.Open:
		return errNotOpen
	case amount > mostFunds-f.Balance:
		return errFull
	}
	return nil
}

// decide folds the funds of the wallets and appends the events that rule decides. It retries when another append
// got ahead.
func (w wallets) decide(ctx context.Context, ids []string, rule func([]funds) ([]event.Event, error)) error {
	_, err := w.journal.CommitIf(ctx, w.pool, func(ctx context.Context, db event.Querier) ([]event.Event,
		journal.Condition, error,
	) {
		all, condition, err := journal.Decide(ctx, db, fundsOf(ids), transfers().FoldByKey)
		if err != nil {
			return nil, condition, err
		}
		states := make([]funds, len(ids))
		for i, id := range ids {
			states[i] = all[id]
		}
		events, err := rule(states)
		return events, condition, err
	})
	if err != nil {
		return fmt.Errorf("wallets %v: %w", ids, err)
	}
	return nil
}

// newEvent returns an event in the campaign of its wallet.
func newEvent(eventType event.Type[moved], m moved) event.Event {
	e := eventType.New(m)
	e.CampaignID, e.AggregateType, e.AggregateID = "wallet-"+m.Wallet, "wallet", m.Wallet
	if e.Tags = []string{tag(m.Wallet)}; m.With != "" {
		e.Tags = append(e.Tags, tag(m.With))
	}
	return e
}

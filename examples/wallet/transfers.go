package main

import (
	"context"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// request asks for a transfer. Whether the wallet has enough is decided by [transfers].
func (w wallets) request(ctx context.Context, from, to string, amount int64) error {
	if from == to {
		return errSameWallet
	}
	return w.decide(ctx, []string{from, to}, func(f []funds) ([]event.Event, error) {
		if !f[0].Open {
			return nil, errNotOpen
		}
		if err := f[1].admit(amount); err != nil {
			return nil, err
		}
		return []event.Event{newEvent(requested, moved{Wallet: from, With: to, Amount: amount})}, nil
	})
}

// transfers carries out requested transfers: it sends the funds from one wallet, then the other
// receives them, then the first knows that the transfer is settled. Its state is a wallet's funds, up
// to the event that it reacts to. Later events cannot take what a request holds.
func transfers() projection.Process[funds] {
	return projection.Process[funds]{
		Name: "wallet_transfers", Version: 1,
		Key: func(e event.Event) (string, error) { return e.AggregateID, nil },
		On:  funding(),
		React: []projection.Reaction[funds]{
			projection.React(requested, func(f *funds, e event.Event, m moved) ([]projection.Do, error) {
				m.Transfer = e.ID.String()
				if !f.Granted {
					return then(refused, m), nil
				}
				return then(sent, m), nil
			}),
			projection.React(sent, func(_ *funds, _ event.Event, m moved) ([]projection.Do, error) {
				return then(received, m.other()), nil
			}),
			projection.React(received, func(_ *funds, _ event.Event, m moved) ([]projection.Do, error) {
				return then(settled, m.other()), nil
			}),
		},
	}
}

// then appends one event at once, if it is part of a requested transfer.
func then(eventType event.Type[moved], m moved) []projection.Do {
	if m.Transfer == "" {
		return nil
	}
	e := newEvent(eventType, m)
	return []projection.Do{{Campaign: e.CampaignID, Events: []event.Event{e}}}
}

// other returns the transfer as the other wallet has it.
func (m moved) other() moved {
	m.Wallet, m.With = m.With, m.Wallet
	return m
}

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
		Types: []string{opened, deposited, withdrawn, requested, sent, received},
		Key:   func(e event.Event) (string, error) { return e.AggregateID, nil },
		Fold:  func(f *funds, e event.Event) error { return f.add(e) },
		React: func(f *funds, e event.Event) ([]projection.Do, error) {
			m, err := event.Decode[moved](e)
			other := moved{Wallet: m.With, With: m.Wallet, Amount: m.Amount, Transfer: m.Transfer}
			switch {
			case e.Type == requested:
				m.Transfer = e.ID.String()
				if !f.Granted {
					return then(refused, m), err
				}
				return then(sent, m), err
			case e.Type == sent && m.Transfer != "":
				return then(received, other), err
			case e.Type == received && m.Transfer != "":
				return then(settled, other), err
			}
			return nil, err
		},
	}
}

// then appends one event at once.
func then(eventType string, m moved) []projection.Do {
	e := newEvent(eventType, m)
	return []projection.Do{{Campaign: e.CampaignID, Events: []event.Event{e}}}
}

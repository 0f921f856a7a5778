package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

const maxBodyBytes = 1 << 16

// command is the body of a POST request.
type command struct {
	Owner  string `json:"owner"`
	Amount int64  `json:"amount"` // in cents
	To     string `json:"to"`
}

// handler serves
//
//	POST /wallets/{id}              {"owner": "mira"}
//	POST /wallets/{id}/deposits     {"amount": 500}
//	POST /wallets/{id}/withdrawals  {"amount": 200}
//	POST /wallets/{id}/transfers    {"to": "2", "amount": 100}
//	POST /wallets/{id}/requests     the same, which a process transfers a moment later or refuses
//	GET  /wallets/{id}              the read model, a moment behind
//	GET  /days/{day}                the totals of all wallets on a day, such as 2026-05-04
func handler(w wallets) http.Handler {
	mux := http.NewServeMux()
	on := func(pattern string, do func(ctx context.Context, id string, c command) error) {
		mux.HandleFunc(pattern, func(out http.ResponseWriter, r *http.Request) {
			var c command
			if err := json.NewDecoder(http.MaxBytesReader(out, r.Body, maxBodyBytes)).Decode(&c); err != nil {
				http.Error(out, "the body: "+err.Error(), http.StatusBadRequest)
				return
			}
			if err := do(r.Context(), r.PathValue("id"), c); err != nil {
				http.Error(out, err.Error(), status(err))
				return
			}
			out.WriteHeader(http.StatusNoContent)
		})
	}
	on("POST /wallets/{id}", func(ctx context.Context, id string, c command) error { return w.open(ctx, id, c.Owner) })
	on("POST /wallets/{id}/deposits", func(ctx context.Context, id string, c command) error {
		return w.deposit(ctx, id, c.Amount)
	})
	on("POST /wallets/{id}/withdrawals", func(ctx context.Context, id string, c command) error {
		return w.withdraw(ctx, id, c.Amount)
	})
	on("POST /wallets/{id}/transfers", func(ctx context.Context, id string, c command) error {
		return w.transfer(ctx, id, c.To, c.Amount)
	})
	on("POST /wallets/{id}/requests", func(ctx context.Context, id string, c command) error {
		return w.request(ctx, id, c.To, c.Amount)
	})
	mux.HandleFunc("GET /wallets/{id}", func(out http.ResponseWriter, r *http.Request) {
		b, found, err := balances().GetKey(r.Context(), w.pool, "wallet-"+r.PathValue("id"), r.PathValue("id"))
		if err == nil && !found {
			err = errNotOpen
		}
		answer(out, b, err)
	})
	mux.HandleFunc("GET /days/{day}", func(out http.ResponseWriter, r *http.Request) {
		d, _, err := days().Get(r.Context(), w.pool, r.PathValue("day"))
		answer(out, d, err)
	})
	return mux
}

func answer(out http.ResponseWriter, doc any, err error) {
	if err != nil {
		http.Error(out, err.Error(), status(err))
		return
	}
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(doc) // the client may have gone
}

func status(err error) int {
	switch {
	case errors.Is(err, errNotOpen):
		return http.StatusNotFound
	case errors.Is(err, errOpenAlready), errors.Is(err, errOverdraft), errors.Is(err, errFull):
		return http.StatusConflict
	case errors.Is(err, errAmount), errors.Is(err, errSameWallet):
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

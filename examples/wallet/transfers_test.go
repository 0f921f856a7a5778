package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

// outcomes lists the ways in which requested transfers have gone, each with the types of its events.
const outcomes = `SELECT coalesce(string_agg(DISTINCT o.events, ' | '), '') FROM (
	SELECT coalesce((SELECT string_agg(j.event_type, ' ' ORDER BY j."position") FROM tidemark.journal j
		WHERE j.payload ->> 'transfer' = r.event_id::text), 'nothing') AS events
	FROM tidemark.journal r WHERE r.event_type = 'transfer_requested') AS o`

// TestRequestedTransfersConserveMoneyWhoeverIsKilled kills workers while transfers are requested and
// made, and while others take money out of the same wallets.
func TestRequestedTransfersConserveMoneyWhoeverIsKilled(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p, err := projector.New(projector.Config{Pool: pool, Projections: projections()})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	const each = 100
	w := wallets{pool, journal.Journal{Retry: journal.Retry{Attempts: 100, Most: 100 * time.Millisecond}}}
	ids := []string{"a", "b", "c", "d"}
	for _, id := range ids {
		if err := w.open(t.Context(), id, id); err != nil {
			t.Fatal(err)
		}
		if err := w.deposit(t.Context(), id, each); err != nil {
			t.Fatal(err)
		}
	}
	started := 0
	start := func() *worker.Process {
		started++
		return worker.Start(t, worker.Config{
			URL: pool.Config().ConnString(), Name: fmt.Sprintf("replica-%d", started), Own: true, LeaseTTL: time.Second,
			PollInterval: 100 * time.Millisecond, GroupEvents: 5,
		})
	}
	running := []*worker.Process{start(), start()}

	var writers errgroup.Group
	for n := range 3 {
		writers.Go(func() error {
			for i := range 50 {
				from, to := ids[(n+i)%4], ids[(n+i+1+rand.IntN(3))%4]
				do := w.request
				if i%5 == 4 {
					do = w.transfer
				}
				if err := do(t.Context(), from, to, 1+rand.Int64N(each)); err != nil && status(err) != http.StatusConflict {
					return err
				}
			}
			return nil
		})
	}
	kills := time.NewTicker(200 * time.Millisecond)
	defer kills.Stop()
	for n := range 15 {
		<-kills.C
		running[n%2].Kill(t)
		running[n%2] = start()
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	tally.Eventually(t, "each request has an outcome", tally.Holds(pool, `SELECT
		count(*) FILTER (WHERE event_type = 'transfer_requested') = count(*) FILTER (WHERE event_type IN
			('transfer_settled', 'transfer_refused')) FROM tidemark.journal`))
	tally.Settle(t, pool, "default")
	for _, r := range running {
		r.Terminate(t)
	}
	if got, want := tally.Value[string](t, pool, outcomes),
		"funds_sent funds_received transfer_settled | transfer_refused"; got != want {
		t.Errorf("transfers went as %q, want %q", got, want)
	}
	if sum := tally.Value[int](t, pool, `SELECT sum((doc ->> 'balance')::bigint) FROM wallet_balances`); sum != 4*each {
		t.Errorf("the wallets hold %d, want %d", sum, 4*each)
	}
	all, _, err := journal.Decide(t.Context(), pool, fundsOf(ids), transfers().FoldByKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		f := all[id]
		b, _, err := balances().GetKey(t.Context(), pool, "wallet-"+id, id)
		state, _, err2 := transfers().Get(t.Context(), pool, id)
		if err != nil || err2 != nil || f.Balance < 0 || f.Held != 0 || b.Balance != f.Balance ||
			state != f {
			t.Errorf("wallet %s has %+v, the read model %+v, %v, the process %+v, %v", id, f, b, err, state, err2)
		}
	}
}

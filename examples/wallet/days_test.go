package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestTheTotalsOfADayAreThoseOfAllWallets(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker, err := newWorker(pool)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler(wallets{pool: pool}))
	t.Cleanup(server.Close)
	midnight := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	for i, m := range []struct {
		eventType event.Type[moved]
		moved     moved
		at        time.Duration
	}{
		{deposited, moved{Wallet: "1", Amount: 500}, -time.Second},
		{withdrawn, moved{Wallet: "1", Amount: 20}, -time.Second},
		{deposited, moved{Wallet: "1", Amount: 7}, 0},
		{deposited, moved{Wallet: "2", Amount: 30}, time.Hour},
		{sent, moved{Wallet: "2", With: "1", Amount: 11}, time.Hour},
		{received, moved{Wallet: "1", With: "2", Amount: 11}, time.Hour},
	} {
		e := newEvent(m.eventType, m.moved)
		e.OccurredAt = midnight.Add(m.at).In(time.FixedZone("", 3600))
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, e.CampaignID, journal.Any, e)
			return err
		}); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if _, err := worker.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for date, want := range map[string]day{
		"2026-05-03": {Deposited: 500, Withdrawn: 20}, "2026-05-04": {Deposited: 37, Transferred: 11}, "2026-05-05": {},
	} {
		response, err := server.Client().Get(server.URL + "/days/" + date)
		if err != nil {
			t.Fatal(err)
		}
		var got day
		if err := json.NewDecoder(response.Body).Decode(&got); err != nil || got != want || response.StatusCode != http.StatusOK {
			t.Errorf("%s: %+v, %s, %v, want %+v", date, got, response.Status, err, want)
		}
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

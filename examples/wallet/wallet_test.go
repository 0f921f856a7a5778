package main

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/publishing"
	"github.com/tidemark-go/tidemark/internal/sinks"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

func TestMain(m *testing.M) { worker.Main(m, projections()...) }

func TestWalletsOverHTTP(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker, err := newWorker(pool)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler(wallets{pool: pool}))
	t.Cleanup(server.Close)
	for _, step := range []struct {
		path, body string
		want       int
	}{
		{"/1", `{"owner": "mira"}`, http.StatusNoContent},
		{"/1", `{"owner": "mira"}`, http.StatusConflict},
		{"/1/deposits", `{"amount": 500}`, http.StatusNoContent},
		{"/1/deposits", `{"amount": 0}`, http.StatusUnprocessableEntity},
		{"/1/withdrawals", `{"amount": 501}`, http.StatusConflict},
		{"/1/withdrawals", `{"amount": 100}`, http.StatusNoContent},
		{"/1/transfers", `{"to": "2", "amount": 100}`, http.StatusNotFound},
		{"/2", `{"owner": "oskar"}`, http.StatusNoContent},
		{"/1/transfers", `{"to": "2", "amount": 401}`, http.StatusConflict},
		{"/1/transfers", `{"to": "1", "amount": 1}`, http.StatusUnprocessableEntity},
		{"/1/transfers", `{"to": "2", "amount": 150}`, http.StatusNoContent},
		{"/2/withdrawals", `{"amount": 150}`, http.StatusNoContent},
		{"/2/deposits", `{"amount": 1000000000000000}`, http.StatusNoContent},
		{"/2/deposits", `{"amount": 1}`, http.StatusConflict},
		{"/2/deposits", `{"amount": 9223372036854775807}`, http.StatusConflict},
		{"/1/transfers", `{"to": "2", "amount": 1}`, http.StatusConflict},
		{"/2/withdrawals", `{"amount": 1000000000000000}`, http.StatusNoContent},
		{"/3/deposits", `{"amount": 1}`, http.StatusNotFound},
		{"/3/deposits", `{`, http.StatusBadRequest},
	} {
		response, err := server.Client().Post(server.URL+"/wallets"+step.path, "application/json",
			strings.NewReader(step.body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != step.want {
			t.Errorf("%s %s: %s %s, want %d", step.path, step.body, response.Status, text, step.want)
		}
	}
	if _, err := worker.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]balance{"1": {"mira", 250, 3}, "2": {"oskar", 0, 4}} {
		response, err := server.Client().Get(server.URL + "/wallets/" + id)
		if err != nil {
			t.Fatal(err)
		}
		var got balance
		err = errors.Join(json.NewDecoder(response.Body).Decode(&got), response.Body.Close())
		if err != nil || got != want {
			t.Errorf("wallet %s: %+v, %v, want %+v", id, got, err, want)
		}
	}
}

// No money appears or disappears, and no wallet is overdrawn, however many transfers run at once.
func TestTransfersInAllDirectionsKeepTheSum(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	w := wallets{pool, journal.Journal{Retry: journal.Retry{Attempts: 100, Most: 100 * time.Millisecond}}}
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		if err := w.open(t.Context(), id, id); err != nil {
			t.Fatal(err)
		}
		if err := w.deposit(t.Context(), id, 10); err != nil {
			t.Fatal(err)
		}
	}
	var g errgroup.Group
	for n := range 6 {
		g.Go(func() error {
			for i := range 5 {
				err := w.transfer(t.Context(), ids[n%3], ids[(n+1+i%2)%3], 7)
				if err != nil && status(err) != http.StatusConflict {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	all, _, err := journal.Decide(t.Context(), pool, fundsOf(ids), transfers().FoldByKey)
	if err != nil {
		t.Fatal(err)
	}
	if a, b, c := all["a"].Balance, all["b"].Balance, all["c"].Balance; min(a, b, c) < 0 || a+b+c != 30 {
		t.Errorf("balances %d, %d, %d", a, b, c)
	}
}

func TestTheTopicsLoad(t *testing.T) {
	t.Parallel()
	if _, err := publishing.Load("publications.yaml", sinks.Kinds(), slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
}

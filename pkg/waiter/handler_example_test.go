package waiter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/waiter"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// Order is a read model.
type Order struct {
	Article string `json:"article"`
}

// orderHandler serves GET /orders/{id}.
func orderHandler(pool *pgxpool.Pool, w *waiter.Waiter, orders projection.Document[Order]) http.HandlerFunc {
	return func(answer http.ResponseWriter, r *http.Request) {
		if token := r.Header.Get("Tidemark-Token"); token != "" {
			ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
			defer cancel()
			switch err := w.Wait(ctx, token, orders.Name); {
			case errors.Is(err, journal.ErrInvalidToken):
				http.Error(answer, err.Error(), http.StatusBadRequest)
				return
			case err != nil: // not applied yet, or it will not be for now
				http.Error(answer, "not yet, ask again", http.StatusServiceUnavailable)
				return
			}
		}
		order, found, err := orders.Get(r.Context(), pool, "order-"+r.PathValue("id"))
		switch {
		case err != nil:
			http.Error(answer, "ask again", http.StatusServiceUnavailable)
		case !found:
			http.Error(answer, "there is no such order", http.StatusNotFound)
		default:
			_ = json.NewEncoder(answer).Encode(order)
		}
	}
}

// A page that shows what the client has just written.
func ExampleWaiter() {
	const Ordered event.Type[Order] = "ordered"
	orders := projection.Document[Order]{
		Name: "orders", Version: 1,
		On: event.Folds[Order]{
			event.On(Ordered, func(o *Order, _ event.Event, p Order) error { *o = p; return nil }),
		},
	}
	err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		worker, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{orders}})
		if err != nil {
			return err
		}
		if err := worker.Register(ctx); err != nil {
			return err
		}
		w := waiter.New(pool, nil)
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 2)
		go func() { ended <- worker.Run(running) }()
		go func() { ended <- w.Run(running) }()
		defer func() { stop(); _, _ = <-ended, <-ended }()

		places, err := journal.Journal{}.Commit(ctx, pool,
			journal.Batch{CampaignID: "order-1", Events: []event.Event{Ordered.New(Order{"tea"})}})
		if err != nil {
			return err
		}
		pages := http.NewServeMux()
		pages.Handle("GET /orders/{id}", orderHandler(pool, w, orders))
		for _, ask := range []struct{ id, token string }{
			{"1", places[0].Token()}, {"2", ""}, {"1", "no token"},
		} {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/orders/"+ask.id, nil)
			r.Header.Set("Tidemark-Token", ask.token)
			answer := httptest.NewRecorder()
			pages.ServeHTTP(answer, r)
			fmt.Println(answer.Code, strings.SplitN(answer.Body.String(), ":", 3)[0])
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 200 {"article"
	// 404 there is no such order
	//
	// 400 invalid token "no token"
}

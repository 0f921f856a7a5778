package endpoint_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/endpoint"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/waiter"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// Booking is who has a seat: the body of POST /seats/{seat}, the payload and the read model.
type Booking struct {
	Name string `json:"name"`
}

const SeatBooked event.Type[Booking] = "seat_booked"

// seats is the read model, and what the decision folds.
func seats() projection.Document[Booking] {
	return projection.Document[Booking]{
		Name: "seats", Version: 1,
		On: event.Folds[Booking]{
			event.On(SeatBooked, func(seat *Booking, _ event.Event, b Booking) error {
				*seat = b
				return nil
			}),
		},
	}
}

var errTaken = errors.New("the seat is taken")

// bookSeat books a seat, once for each command.
func bookSeat(ctx context.Context, pool *pgxpool.Pool, c journal.Command, b Booking) (journal.Outcome, error) {
	return journal.Journal{}.Do(ctx, pool, c, func(ctx context.Context, tx pgx.Tx) (journal.Decision, error) {
		seat, seq, err := journal.Load(ctx, tx, c.CampaignID, seats().On.Fold)
		if err != nil || seat.Name != "" {
			return journal.Decision{}, cmp.Or(err, errTaken)
		}
		return journal.Decision{Events: []event.Event{SeatBooked.New(b)}, Expect: journal.Exactly(seq)}, nil
	})
}

// showSeat serves GET /seats/{seat}.
func showSeat(pool *pgxpool.Pool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		seat, found, err := seats().Get(r.Context(), pool, "seat-"+r.PathValue("seat"))
		switch {
		case err != nil:
			http.Error(w, "ask again", http.StatusServiceUnavailable)
		case !found:
			http.Error(w, "the seat is free", http.StatusNotFound)
		default:
			_ = json.NewEncoder(w).Encode(seat)
		}
	}
}

func handler(logger *slog.Logger, pool *pgxpool.Pool, waits *waiter.Waiter) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /seats/{seat}", endpoint.Command(logger,
		func(r *http.Request, c journal.Command, b Booking) (journal.Outcome, error) {
			c.CampaignID = "seat-" + r.PathValue("seat")
			return bookSeat(r.Context(), pool, c, b)
		}, errTaken))
	mux.Handle("GET /seats/{seat}", endpoint.Waiting(waits, showSeat(pool), seats().Name))
	return mux
}

// serve calls use with a server beside a worker and a waiter.
func serve(use func(pool *pgxpool.Pool, ask func(method, path, id, token, body string) *httptest.ResponseRecorder)) error {
	return pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		worker, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{seats()}})
		if err != nil {
			return err
		}
		if err := worker.Register(ctx); err != nil {
			return err
		}
		waits := waiter.New(pool, nil)
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 2)
		go func() { ended <- worker.Run(running) }()
		go func() { ended <- waits.Run(running) }()
		defer func() { stop(); _, _ = <-ended, <-ended }()
		server := handler(nil, pool, waits)
		use(pool, func(method, path, id, token, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
			r.Header.Set(endpoint.IDHeader, id)
			r.Header.Set(endpoint.TokenHeader, token)
			w := httptest.NewRecorder()
			server.ServeHTTP(w, r)
			return w
		})
		return nil
	})
}

const ann, bob = "018c5f3e-0000-7000-8000-00000000000a", "018c5f3e-0000-7000-8000-00000000000b"

// A client sends a request again because it has lost the answer, and another client comes too late.
func ExampleCommand() {
	err := serve(func(_ *pgxpool.Pool, ask func(method, path, id, token, body string) *httptest.ResponseRecorder) {
		book := func(id, body string) string {
			w := ask(http.MethodPost, "/seats/7", id, "", body)
			fmt.Println(strings.TrimSpace(fmt.Sprint(body, " ", w.Code, " ", w.Body.String())))
			return w.Header().Get(endpoint.TokenHeader)
		}
		first := book(ann, `{"name": "Ann"}`)
		again := book(ann, `{"name": "Ann"}`)
		fmt.Println("the same token:", first == again)
		book(bob, `{"name": "Bob"}`)
		book(ann, `{"name": "Cid"}`)
		book("7", `{}`)
		book(bob, `[]`)
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"name": "Ann"} 201
	// {"name": "Ann"} 201
	// the same token: true
	// {"name": "Bob"} 409 the seat is taken
	// {"name": "Cid"} 422 command 018c5f3e-0000-7000-8000-00000000000a of campaign "seat-7" was used for another request: give each command an id of its own, and repeat it unchanged
	// {} 400 Idempotency-Key must be a UUID
	// [] 400 json: cannot unmarshal array into Go value of type endpoint_test.Booking
}

// A page shows what the client has just written.
func ExampleWaiting() {
	err := serve(func(_ *pgxpool.Pool, ask func(method, path, id, token, body string) *httptest.ResponseRecorder) {
		token := ask(http.MethodPost, "/seats/7", ann, "", `{"name": "Ann"}`).Header().Get(endpoint.TokenHeader)
		for _, read := range []struct{ path, token string }{{"/seats/7", token}, {"/seats/8", ""}, {"/seats/7", "no token"}} {
			w := ask(http.MethodGet, read.path, "", read.token, "")
			fmt.Println(w.Code, strings.TrimSpace(strings.SplitN(w.Body.String(), ":", 3)[0]))
		}
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 200 {"name"
	// 404 the seat is free
	// 400 invalid token "no token"
}

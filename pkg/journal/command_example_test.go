package journal_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// errTaken is an answer of the seat's decision.
var errTaken = errors.New("the seat is taken")

// bookSeat books a seat, once for each command.
func bookSeat(ctx context.Context, pool *pgxpool.Pool, c journal.Command) (journal.Outcome, error) {
	return journal.Journal{}.Do(ctx, pool, c, func(ctx context.Context, tx pgx.Tx) (journal.Decision, error) {
		taken, seq, err := journal.Load(ctx, tx, c.CampaignID, func(taken *bool, e event.Event) error {
			*taken = e.Type == "seat_booked"
			return nil
		})
		if err != nil || taken {
			return journal.Decision{}, cmp.Or(err, errTaken)
		}
		return journal.Decision{
			Events: []event.Event{{Type: "seat_booked", Payload: json.RawMessage(c.Content)}},
			Expect: journal.Exactly(seq),
		}, nil
	})
}

// seatHandler serves POST /seats/{seat}.
func seatHandler(pool *pgxpool.Pool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := uuid.Parse(r.Header.Get("Idempotency-Key"))
		if err != nil {
			http.Error(w, "Idempotency-Key must be a UUID", http.StatusBadRequest)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		out, err := bookSeat(r.Context(), pool, journal.Command{
			CampaignID: "seat-" + r.PathValue("seat"), ID: id, Content: body,
		})
		var invalid *journal.InvalidEventError
		switch {
		case errors.Is(err, errTaken):
			http.Error(w, err.Error(), http.StatusConflict)
		case errors.Is(err, journal.ErrCommandReused), errors.As(err, &invalid):
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		case errors.Is(err, event.ErrArchived):
			http.Error(w, "this seat is archived", http.StatusGone)
		case err != nil:
			http.Error(w, "try again with the same Idempotency-Key", http.StatusServiceUnavailable)
		default:
			w.Header().Set("Tidemark-Token", out.Token())
			w.WriteHeader(http.StatusCreated)
		}
	}
}

// order is the body of POST /orders.
type order struct {
	Article  string `json:"article"`
	Quantity int    `json:"quantity"`
}

var errSold = errors.New("there are not so many left")

// placeOrder orders an article, if there are enough. The order's campaign follows from the command's id, and the
// stock from the events of all campaigns that have the article's tag.
func placeOrder(ctx context.Context, pool *pgxpool.Pool, id uuid.UUID, o order) (journal.Outcome, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return journal.Outcome{}, err
	}
	c := journal.Command{CampaignID: "order-" + id.String(), ID: id, Content: body}
	return journal.Journal{}.Do(ctx, pool, c, func(ctx context.Context, tx pgx.Tx) (journal.Decision, error) {
		article := "article=" + o.Article
		left, condition, err := journal.Decide(ctx, tx, event.Tagged([]string{article}, "delivered", "ordered"), stock)
		if err != nil || left < o.Quantity {
			return journal.Decision{}, cmp.Or(err, errSold)
		}
		return journal.Decision{
			Events:    []event.Event{{Type: "ordered", Tags: []string{article}, Payload: body}},
			Condition: &condition,
		}, nil
	})
}

// stock folds an event into the number of articles that are left.
func stock(left *int, e event.Event) error {
	o, err := event.Decode[order](e)
	if e.Type == "ordered" {
		o.Quantity = -o.Quantity
	}
	*left += o.Quantity
	return err
}

// Two orders want the last article: one gets it, and gets it once. Each order is a campaign of its own.
func ExampleJournal_Do() {
	if err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		_, err := journal.Journal{}.Commit(ctx, pool, journal.Batch{CampaignID: "warehouse", Events: []event.Event{
			{Type: "delivered", Tags: []string{"article=tea"}, Payload: json.RawMessage(`{"article": "tea", "quantity": 1}`)},
		}})
		if err != nil {
			return err
		}
		tea, ann, bob := order{"tea", 1}, uuid.New(), uuid.New()
		for _, id := range []uuid.UUID{ann, bob, ann} {
			out, err := placeOrder(ctx, pool, id, tea)
			fmt.Println(len(out.Places), out.Repeated, err)
		}
		return nil
	}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 false <nil>
	// 0 false there are not so many left
	// 1 true <nil>
}

// A client sends a request again because it has lost the answer, and another client comes too late.
func ExampleCommand() {
	if err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		server := http.NewServeMux()
		server.Handle("POST /seats/{seat}", seatHandler(pool))
		post := func(key, name string) string {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/seats/7", strings.NewReader(`{"name": "`+name+`"}`))
			r.Header.Set("Idempotency-Key", key)
			w := httptest.NewRecorder()
			server.ServeHTTP(w, r)
			fmt.Println(strings.TrimSpace(fmt.Sprint(name, " ", w.Code, " ", w.Body.String())))
			return w.Header().Get("Tidemark-Token")
		}
		const ann, bob = "018c5f3e-0000-7000-8000-00000000000a", "018c5f3e-0000-7000-8000-00000000000b"
		first := post(ann, "Ann")
		again := post(ann, "Ann")
		fmt.Println("the same token:", first == again)
		post(bob, "Bob")
		post(ann, "Cid")
		return nil
	}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Ann 201
	// Ann 201
	// the same token: true
	// Bob 409 the seat is taken
	// Cid 422 command 018c5f3e-0000-7000-8000-00000000000a of campaign "seat-7" was used for another request: give each command an id of its own, and repeat it unchanged
}

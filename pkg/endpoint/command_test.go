package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/endpoint"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/waiter"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/unreadable"
)

func TestACommandAnswersWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	made := journal.Outcome{Places: []journal.Appended{{CampaignID: "a", Seq: 1, Position: 1}}}
	for name, c := range map[string]struct {
		out  journal.Outcome
		err  error
		body string
		want int
		text string
	}{
		"made":     {made, nil, `{"name": "Ann"}`, http.StatusCreated, ""},
		"no body":  {made, nil, " ", http.StatusCreated, ""},
		"nothing":  {journal.Outcome{}, nil, "", http.StatusNoContent, ""},
		"refusal":  {journal.Outcome{}, fmt.Errorf("seat 7: %w", errTaken), "", http.StatusConflict, "seat 7: the seat is taken"},
		"reused":   {journal.Outcome{}, journal.ErrCommandReused, "", http.StatusUnprocessableEntity, "another command"},
		"invalid":  {journal.Outcome{}, &journal.InvalidEventError{Field: "tags", Reason: "no"}, "", http.StatusUnprocessableEntity, "tags"},
		"archived": {journal.Outcome{}, &event.ArchivedError{Campaign: "a"}, "", http.StatusGone, "archive"},
		"unknown":  {journal.Outcome{}, errors.New("secret"), "", http.StatusServiceUnavailable, "try again with the same Idempotency-Key\n"},
		"large":    {made, nil, strings.Repeat(" ", 1<<20+1), http.StatusRequestEntityTooLarge, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := endpoint.Command(nil, func(_ *http.Request, cmd journal.Command, b Booking) (journal.Outcome, error) {
				if string(cmd.Content) != c.body || cmd.ID.String() != ann || (b.Name == "Ann") != (name == "made") {
					t.Errorf("got %+v, %+v", cmd, b)
				}
				return c.out, c.err
			}, errTaken)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(c.body))
			r.Header.Set(endpoint.IDHeader, ann)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.want || !strings.Contains(w.Body.String(), c.text) || strings.Contains(w.Body.String(), "secret") {
				t.Errorf("got %d %q", w.Code, w.Body)
			}
			if token := w.Header().Get(endpoint.TokenHeader); token != c.out.Token() && c.want == http.StatusCreated {
				t.Errorf("the token is %q", token)
			}
		})
	}
}

// Without a running waiter nothing is known to be applied.
func TestAReadThatIsNotAppliedInTimeIsAskedForAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	places, err := journal.Journal{}.Commit(t.Context(), pool,
		journal.Batch{CampaignID: "seat-7", Events: []event.Event{SeatBooked.New(Booking{"Ann"})}})
	if err != nil {
		t.Fatal(err)
	}
	h := endpoint.Waiting(waiter.New(pool, nil), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the page is shown")
	}), "seats")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the client does not wait
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	r.Header.Set(endpoint.TokenHeader, places[0].Token())
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d", w.Code)
	}
}

// TestAReadThatFailsIsNoRefusal asks the handler of the guide, whose client would give up after a 409.
func TestAReadThatFailsIsNoRefusal(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	unreadable.Write(t, pool, "seat-7", "noted", unreadable.Damaged)
	server := handler(nil, pool, waiter.New(pool, nil))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/seats/7", strings.NewReader(`{}`))
	r.Header.Set(endpoint.IDHeader, ann)
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
}

func TestAnErrorThatIsNotAnsweredIsLogged(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	h := endpoint.Command(logger, func(*http.Request, journal.Command, Booking) (journal.Outcome, error) {
		return journal.Outcome{}, fmt.Errorf("book: %w", &pgconn.PgError{
			Code: "23505", Message: "duplicate key", Detail: "Key (name)=(Ann) already exists.",
		})
	})
	ask := func(ctx context.Context) {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/seats/7", strings.NewReader(`{}`))
		r.Header.Set(endpoint.IDHeader, ann)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if ask(gone); log.Len() > 0 {
		t.Errorf("logged for a client that has gone: %s", &log)
	}
	ask(t.Context())
	for _, want := range []string{"23505", "/seats/7", ann} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log: %s", want, &log)
		}
	}
	if strings.Contains(log.String(), "Ann") {
		t.Errorf("the log quotes a value: %s", &log)
	}
}

func TestAReadOfALostEventIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	err := serve(func(pool *pgxpool.Pool, ask func(method, path, id, token, body string) *httptest.ResponseRecorder) {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lost, err := (journal.Journal{}).Append(t.Context(), tx, "seat-7", journal.Any, SeatBooked.New(Booking{"Ann"}))
		if err = errors.Join(err, tx.Rollback(t.Context())); err != nil {
			t.Fatal(err)
		}
		ask(http.MethodPost, "/seats/7", bob, "", `{"name": "Bob"}`)
		w := ask(http.MethodGet, "/seats/7", "", lost[0].Token(), "")
		if w.Code != http.StatusGone {
			t.Errorf("answered %d %s", w.Code, w.Body)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAReadOfWhatHasFailedIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	broken := projection.Document[Booking]{Name: "seats", Version: 1, On: event.Folds[Booking]{
		event.On(SeatBooked, func(*Booking, event.Event, Booking) error {
			return projection.Permanent(errors.New("no such seat"))
		}),
	}}
	worker, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{broken}})
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	places, err := journal.Journal{}.Commit(t.Context(), pool,
		journal.Batch{CampaignID: "seat-7", Events: []event.Event{SeatBooked.New(Booking{"Ann"})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	waits, ended := waiter.New(pool, nil), make(chan struct{})
	running, stop := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		_ = waits.Run(running) // until it is stopped
	}()
	defer func() { stop(); <-ended }()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/seats/7", nil)
	r.Header.Set(endpoint.TokenHeader, places[0].Token())
	w := httptest.NewRecorder()
	handler(nil, pool, waits).ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "for now") {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
}

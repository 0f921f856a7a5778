package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/waiter"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestACallWaitsUntilTheProjectionHasApplied(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{
		projection.Document[map[string]int]{
			Name: "scores", Version: 1, Fold: func(_ *map[string]int, e event.Event) error {
				if e.Type == "bad" {
					return projection.Permanent(errors.New("no such player"))
				}
				return nil
			},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	drain := func() {
		t.Helper()
		if _, err := worker.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	drain()
	add := func(kind string) string {
		t.Helper()
		var all []journal.Appended
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
			all, err = journal.Journal{}.Append(t.Context(), tx, "oak", journal.Any, event.Event{Type: kind})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return all[0].Token()
	}
	waiter := waiter.New(pool, nil)
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- waiter.Run(running) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	a, err := New(Config{
		Pool: pool, Acts: admin.On(pool), Waiter: waiter, Payloads: payload.Rule{Least: auth.Operator},
		Failed: func(w http.ResponseWriter, _ *http.Request, err error) {
			var refused *problem.Problem
			if !errors.As(err, &refused) {
				refused = problem.New(http.StatusInternalServerError, err.Error(), "")
			}
			problem.Write(w, refused)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	// get calls the route, in which a call that has waited is answered 204.
	get := func(role auth.Role, token, projection string) (int, problem.Problem) {
		t.Helper()
		mux := http.NewServeMux()
		mux.Handle("GET /{campaign}", a.Await(Route{Awaits: true}, http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })))
		query := url.Values{"after": {token}, "projection": {projection}}
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequestWithContext(auth.With(t.Context(), auth.Identity{Name: "ada", Role: role}),
			http.MethodGet, "/oak?"+query.Encode(), nil))
		var p problem.Problem
		if answer.Body.Len() > 0 {
			if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
		}
		return answer.Code, p
	}
	first := add("good")
	answered := make(chan int, 1)
	go func() {
		status, _ := get(auth.Operator, first, "scores")
		answered <- status
	}()
	select {
	case status := <-answered:
		t.Fatalf("nothing is applied, and the call is answered %d", status)
	case <-time.After(100 * time.Millisecond):
	}
	drain()
	if status := <-answered; status != http.StatusNoContent {
		t.Errorf("the event is applied, and the call is answered %d", status)
	}
	for _, tt := range []struct {
		role              auth.Role
		token, projection string
		status            int
	}{
		{auth.Viewer, first, "scores", http.StatusForbidden},
		{auth.Operator, "oak", "scores", http.StatusBadRequest},
		{auth.Operator, journal.Token{CampaignID: "elm", Seq: 1, Position: 1}.String(), "scores", http.StatusBadRequest},
		{auth.Operator, first, "nosuch", http.StatusNoContent}, // the call refuses it
		{auth.Operator, first, "", http.StatusNoContent},       // and this
		{auth.Operator, "", "scores", http.StatusNoContent},
	} {
		if status, p := get(tt.role, tt.token, tt.projection); status != tt.status {
			t.Errorf("%s with %q for %q is answered %d %+v, want %d", tt.role, tt.token, tt.projection, status, p, tt.status)
		}
	}
	a.patience = 50 * time.Millisecond
	late := add("good")
	if status, p := get(auth.Operator, late, "scores"); status != http.StatusGatewayTimeout || p.Value != late ||
		!strings.Contains(p.Remedy, "same token") {
		t.Errorf("a worker that is late is answered %d %+v", status, p)
	}
	a.patience = longestAwait
	bad := add("bad")
	drain()
	if status, p := get(auth.Operator, bad, "scores"); status != http.StatusConflict || p.Value != "scores" ||
		!strings.Contains(p.Detail, "no such player") {
		t.Errorf("a campaign that is dead is answered %d %+v", status, p)
	}
	a.awaiting.Store(mostAwaiting)
	if status, _ := get(auth.Operator, first, "scores"); status != http.StatusServiceUnavailable {
		t.Errorf("a call more than may wait is answered %d", status)
	}
}

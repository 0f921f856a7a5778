package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/waiter"
)

const (
	longestAwait = 10 * time.Second // for a projection, before a call is answered
	mostAwaiting = 1000             // calls at once
)

// Await makes a call about a projection's rows of a campaign wait, if it has a token in after, until the
// projection has applied the token's event. Put it outside of the caller's share of the database: a call
// that waits takes no connection.
func (a *API) Await(route Route, next http.Handler) http.Handler {
	if !route.Awaits {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.URL.Query().Get(fieldPlace); token != "" {
			if err := a.await(r, token, r.URL.Query().Get("projection")); err != nil {
				a.fail(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (a *API) await(r *http.Request, token, projection string) error {
	if err := a.sees(r); err != nil {
		return err
	}
	t, err := journal.ParseToken(token)
	switch campaign := r.PathValue("campaign"); {
	case err != nil:
		return param.Refuse(fieldPlace, token, "a token", "this is no token of an append", "send the token unchanged")
	case t.CampaignID != campaign:
		return param.Refuse(fieldPlace, token, campaign, "the token is of another campaign", "ask for that campaign")
	case projection == "":
		return nil // the call refuses it
	}
	if a.awaiting.Add(1) > mostAwaiting {
		err = problem.New(http.StatusServiceUnavailable, "too many calls wait for projections", "ask again later").
			Of(fieldPlace, token, fmt.Sprint(mostAwaiting))
	} else {
		ctx, cancel := context.WithTimeout(r.Context(), a.patience)
		defer cancel()
		err = a.cfg.Waiter.Wait(ctx, token, projection)
	}
	a.awaiting.Add(-1)
	switch refused, ok := errors.AsType[*waiter.NotAppliedError](err); {
	case ok && refused.Status == waiter.Unregistered:
		return nil // the call names those that are
	case ok:
		return problem.New(http.StatusConflict, refused.Error(), "look at /api/v1/failed, or read without after").
			Of("projection", projection, "")
	case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil:
		return problem.New(http.StatusGatewayTimeout, fmt.Sprintf("projection %s has not applied event %d yet", projection,
			t.Seq), "ask again with the same token").Of(fieldPlace, token, a.patience.String())
	}
	return err
}

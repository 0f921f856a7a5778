package endpoint

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/waiter"
)

// mostWait is how long a read waits.
const mostWait = 2 * time.Second

// Waiting returns a handler that waits until the projections have applied what the request's header Tidemark-Token
// names, and then calls next. Without the header it calls next at once. It waits for 2 s at most.
//
// It answers 400 to a text that is no token, 410 if the token's event is lost (its append was rolled back, or a
// failover took it), and 503 if an event is not applied in time or, at once, if it will not be for now, as when the
// projection has failed or is paused: the client asks again, or without the token.
func Waiting(w *waiter.Waiter, next http.Handler, projections ...string) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if token := r.Header.Get(TokenHeader); token != "" {
			ctx, cancel := context.WithTimeout(r.Context(), mostWait)
			defer cancel()
			err := w.Wait(ctx, token, projections...)
			refused, _ := errors.AsType[*waiter.NotAppliedError](err)
			switch {
			case refused != nil && refused.Status == waiter.Replaced:
				http.Error(out, "the event of the token is lost, ask without the token", http.StatusGone)
				return
			case errors.Is(err, journal.ErrInvalidToken):
				http.Error(out, err.Error(), http.StatusBadRequest)
				return
			case refused != nil:
				http.Error(out, "it will not be there for now, ask again later or without the token", http.StatusServiceUnavailable)
				return
			case err != nil:
				http.Error(out, "not yet, ask again", http.StatusServiceUnavailable)
				return
			}
		}
		next.ServeHTTP(out, r)
	})
}

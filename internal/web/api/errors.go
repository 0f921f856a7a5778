package api

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/web/auth"
	"github.com/tidemark-go/tidemark/internal/web/problem"
	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/outbox"
	"github.com/tidemark-go/tidemark/pkg/pause"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// statuses says how errors of acts and reads are answered.
func statuses() map[int][]error {
	return map[int][]error{
		http.StatusBadRequest: {admin.ErrInvalid, deferred.ErrPattern},
		http.StatusForbidden:  {admin.ErrForbidden},
		http.StatusNotFound: {
			admin.ErrNotFound, deferred.ErrNotFound, deferred.ErrUnknown, pause.ErrUnknown, projector.ErrUnknownProjection, publisher.ErrNotFound, journal.ErrNotFound, outbox.ErrNotRegistered,
			auth.ErrNoToken,
		},
		http.StatusConflict: {
			admin.ErrChanged, admin.ErrNotHere, deferred.ErrConflict, deferred.ErrNotResettable, pause.ErrNotPaused, projector.ErrNoRebuild, projector.ErrRebuilding, projector.ErrNoPrevious,
			projector.ErrBehind, projector.ErrNotVerifiable, projector.ErrRegistered, publisher.ErrConflict,
			auth.ErrNameTaken, outbox.ErrInUse,
		},
		http.StatusUnprocessableEntity: {admin.ErrKeyReused, admin.ErrDeclined},
	}
}

// fail answers a request with what went wrong. Errors that are neither the database's nor the network's say what was wrong with the request.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	for status, errs := range statuses() {
		for _, known := range errs {
			if errors.Is(err, known) {
				problem.Write(w, problem.New(status, err.Error(), ""))
				return
			}
		}
	}
	var refused *problem.Problem
	var server *pgconn.PgError
	var connect *pgconn.ConnectError
	var network net.Error
	if !errors.As(err, &refused) && !errors.As(err, &server) && !errors.As(err, &connect) && !errors.As(err, &network) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		err = problem.New(http.StatusBadRequest, err.Error(), "")
	}
	a.cfg.Failed(w, r, err)
}

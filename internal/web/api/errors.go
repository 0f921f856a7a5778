package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/web/auth"
	"github.com/tidemark-go/tidemark/internal/web/problem"
	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/outbox"
	"github.com/tidemark-go/tidemark/pkg/pause"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// answered is how some errors of acts and reads are answered.
type answered struct {
	status int
	remedy string
	errs   []error
}

// answers are looked through in their order: an error may wrap another.
func answers() []answered {
	return []answered{
		{http.StatusBadGateway, "look at the sink and its settings; test-send may be tried again with the same idempotency key", []error{admin.ErrSink}},
		{http.StatusConflict, "ask again in a moment, with the same Idempotency-Key: the answer is what came of it", []error{admin.ErrUnderWay}},
		{http.StatusConflict, "/api/v1/operations?kind=rollback&state=running shows it; aborting it withdraws it", []error{admin.ErrRollingBack}},
		{http.StatusForbidden, "ask somebody with that role", []error{admin.ErrForbidden}},
		{http.StatusServiceUnavailable, "run migrate up", []error{status.ErrNoSchema}},
		{http.StatusUnprocessableEntity, "take a new Idempotency-Key", []error{admin.ErrKeyReused}},
		{http.StatusUnprocessableEntity, "confirm with the text that is asked for", []error{admin.ErrDeclined}},
		{http.StatusBadRequest, "see /api/v1/openapi.yaml", []error{admin.ErrInvalid, deferred.ErrPattern}},
		{http.StatusNotFound, "/api/v1/deferred lists what is behind", []error{deferred.ErrNotFound}},
		{http.StatusNotFound, "/api/v1/resolutions lists which events are left out", []error{deferred.ErrNotResolved}},
		{http.StatusNotFound, "/api/v1/projections lists what is registered", []error{projector.ErrUnknownProjection}},
		{http.StatusNotFound, "/api/v1/groups lists consumer groups", []error{outbox.ErrNotRegistered}},
		{http.StatusNotFound, "/api/v1/publishers lists pairs of topics and publishers, /api/v1/parked what is parked", []error{publisher.ErrNotFound}},
		{http.StatusNotFound, "/api/v1/campaigns?prefix= looks for campaigns, /api/v1/campaigns/{campaign}/events lists events", []error{journal.ErrNotFound}},
		{
			http.StatusUnprocessableEntity, "lists show it by its place, /api/v1/deferred and /api/v1/parked what waits behind it",
			[]error{journal.ErrUnreadable},
		},
		{http.StatusNotFound, "/api/v1/tokens lists tokens", []error{auth.ErrNoToken}},
		{http.StatusNotFound, "look for the name in the list of such things", []error{admin.ErrNotFound, deferred.ErrUnknown, pause.ErrUnknown}},
		{http.StatusConflict, "ask another worker", []error{admin.ErrNotHere}},
		{http.StatusConflict, "/api/v1/pauses lists what is paused", []error{pause.ErrNotPaused}},
		{http.StatusConflict, "/api/v1/rebuilds lists what is being rebuilt, /api/v1/projections what is kept of before", []error{projector.ErrNoRebuild, projector.ErrRebuilding, projector.ErrNoPrevious, projector.ErrNoCode}},
		{http.StatusConflict, "revoke the token first, or take another name", []error{auth.ErrNameTaken}},
		{http.StatusConflict, "remove its projections first", []error{outbox.ErrInUse}},
		{http.StatusConflict, "look at it again", []error{
			admin.ErrChanged, deferred.ErrConflict, deferred.ErrNotResettable, projector.ErrBehind, projector.ErrNotVerifiable, projector.ErrStateTooLarge, projector.ErrRegistered, publisher.ErrConflict,
		}},
	}
}

// fail answers a request with what went wrong. Errors that are neither the database's nor the network's say what was wrong with the request.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	err = status.NoSchema(r.Context(), a.cfg.Pool, err)
	var applied *projector.ApplyError
	if errors.As(err, &applied) {
		problem.Write(w, problem.New(http.StatusConflict, redact.Error(err), "look at the campaign as of the event before; /api/v1/deferred says what became of this one"))
		return
	}
	var unknown *admin.UnknownNameError
	if errors.As(err, &unknown) {
		limit := strings.Join(unknown.Known, ", ")
		problem.Write(w, problem.New(http.StatusBadRequest, err.Error(), "use one of the limit's").Of(unknown.Kind, unknown.Name, limit))
		return
	}
	for _, known := range answers() {
		if slices.ContainsFunc(known.errs, func(e error) bool { return errors.Is(err, e) }) {
			problem.Write(w, problem.New(known.status, redact.Error(err), known.remedy))
			return
		}
	}
	var refused *problem.Problem
	var server *pgconn.PgError
	var connect *pgconn.ConnectError
	var network net.Error
	if errors.As(err, &server) && (server.Code == "2201B" || server.Code == "22021") { // a regular expression that is none, text that is no UTF-8 or holds NUL
		problem.Write(w, problem.New(http.StatusBadRequest, "the database does not take a value: "+server.Message, "mend the regular expression, or write text as UTF-8 without NUL"))
		return
	}
	if !errors.As(err, &refused) && !errors.As(err, &server) && !errors.As(err, &connect) && !errors.As(err, &network) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		err = problem.New(http.StatusBadRequest, redact.Error(err), "see /api/v1/openapi.yaml")
	}
	a.cfg.Failed(w, r, err)
}

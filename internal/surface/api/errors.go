package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	a.cfg.Failed(w, r, explained(status.NoSchema(r.Context(), a.cfg.Pool, err)))
}

// explained returns the problem for an error. Errors that are neither the database's nor the network's
// are errors of the request.
func explained(err error) error {
	if _, ok := errors.AsType[*projection.ApplyError](err); ok {
		return problem.New(http.StatusConflict, redact.Error(err),
			"look at the campaign as of the previous event; /api/v1/failed shows why this one failed")
	}
	if reset, ok := errors.AsType[*event.ResetError](err); ok {
		return problem.New(http.StatusConflict, reset.Error(), "go on from the place in limit").Of(fieldPlace,
			reset.Cursor.String(), reset.Go.String())
	}
	if unknown, ok := errors.AsType[*admin.UnknownNameError](err); ok {
		return problem.New(http.StatusBadRequest, err.Error(), "use one of those in limit").Of(unknown.Kind,
			unknown.Name, strings.Join(unknown.Known, ", "))
	}
	if wrong, ok := errors.AsType[*param.Error](err); ok {
		return problem.New(http.StatusBadRequest, wrong.Detail, wrong.Remedy).Of(wrong.Param, wrong.Value, wrong.Limit)
	}
	if known, ok := operator.AnswerTo(err); ok {
		return problem.New(known.Status, redact.Error(err), known.Remedy)
	}
	var refused *problem.Problem
	var server *pgconn.PgError
	var connect *pgconn.ConnectError
	var network net.Error
	// an invalid regular expression, text that is not UTF-8 or contains NUL
	if errors.As(err, &server) && (server.Code == "2201B" || server.Code == "22021") {
		return problem.New(http.StatusBadRequest, "the database refuses a value: "+server.Message,
			"correct the regular expression, or write text as UTF-8 without NUL")
	}
	if !errors.As(err, &refused) && !errors.As(err, &server) && !errors.As(err, &connect) && !errors.As(err, &network) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return problem.New(http.StatusBadRequest, redact.Error(err), "see /api/v1/openapi.yaml")
	}
	return err
}

// Package api is the JSON API under /api/v1/. It shows and does everything that the command line does.
//
// Documents have a version. Lists come in pages, each with the cursor of the next. Errors are problem
// details (RFC 9457). Responses have an ETag. Acts take an Idempotency-Key. A test checks openapi.yaml
// against the routes.
package api

import (
	"context"
	_ "embed" // the description
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
	"github.com/tidemark-go/tidemark/pkg/waiter"
)

//go:embed openapi.yaml
var description []byte

// Config configures an [API].
type Config struct {
	Pool     *pgxpool.Pool // required
	Acts     *admin.Acts   // required
	Payloads payload.Rule
	Failed   auth.Failed // required: responds to a request after an error of the database

	// What [API.Await], streams and [API.Run] need. The caller runs the waiter. Stream writes a stream of
	// server-sent events, under the limits of all streams.
	Waiter *waiter.Waiter
	Stream func(w http.ResponseWriter, r *http.Request, fill Fill)
	Logger *slog.Logger
}

// Route is one call.
type Route struct {
	Method      string
	Pattern     string // of http.ServeMux
	Role        auth.Role
	OperationID string // in openapi.yaml
	Handler     http.Handler
	Awaits      bool // see [API.Await]
	Streams     bool // has no end: bound neither its time nor its share of the database
}

// API serves the JSON API of a worker.
type API struct {
	cfg      Config
	awaiting atomic.Int64  // calls that wait for a projection
	patience time.Duration // of these calls
	tail     *tail
	catching chan struct{} // has a place for each stream that reads for itself
}

// New checks the configuration and returns an API.
func New(cfg Config) (*API, error) {
	if cfg.Pool == nil || cfg.Acts == nil || cfg.Failed == nil {
		return nil, errors.New("api: Pool, Acts and Failed are needed")
	}
	return &API{
		cfg: cfg, patience: longestAwait, tail: newTail(cfg.Pool, cfg.Logger), catching: make(chan struct{}, catchingUp),
	}, nil
}

// Run reads the end of the journal while there are streams, until ctx ends.
func (a *API) Run(ctx context.Context) error {
	a.tail.loop.Run(ctx)
	return nil
}

// Routes returns all calls.
func (a *API) Routes() []Route {
	own := []Route{
		forViewers("/openapi.yaml", "getDescription", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/yaml")
			_, _ = w.Write(description)
		}),
		a.reads("/me", "getMe", func(r *http.Request) (any, error) {
			id := auth.From(r.Context())
			return document.One(map[string]string{"name": id.Name, "role": id.Role.String(), "via": id.Via}), nil
		}),
		forViewers("/events/export", "exportEvents", a.export),
	}
	return slices.Concat(own, a.streamRoutes(), a.viewRoutes(), a.actRoutes())
}

func forViewers(pattern, id string, handle http.HandlerFunc) Route {
	return Route{
		Method: http.MethodGet, Pattern: "/api/v1" + pattern, Role: auth.Viewer, OperationID: id, Handler: handle,
	}
}

// reads returns the route of a read. It refuses unknown names in filters.
func (a *API) reads(pattern, id string, read func(r *http.Request) (any, error)) Route {
	return forViewers(pattern, id, a.get(func(r *http.Request) (any, error) {
		if err := admin.NamesIn(r.URL.Query().Get).Check(r.Context(), a.cfg.Pool); err != nil {
			return nil, err
		}
		return read(r)
	}))
}

// Unknown handles unknown calls.
func (a *API) Unknown() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, route := range a.Routes() {
			mux := http.NewServeMux()
			mux.Handle(route.Pattern, route.Handler)
			if _, pattern := mux.Handler(r); pattern != "" {
				w.Header().Set("Allow", route.Method)
				problem.Write(w, problem.New(http.StatusMethodNotAllowed, "this method is not allowed here",
					"see /api/v1/openapi.yaml").Of("method", r.Method, route.Method))
				return
			}
		}
		problem.Write(w, problem.New(http.StatusNotFound, "there is no such endpoint", "see /api/v1/openapi.yaml").Of("path",
			r.URL.Path, ""))
	})
}

package pages

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Config configures [New].
type Config struct {
	Pool     *pgxpool.Pool // required; its own small pool with a statement_timeout, so that pages never starve workers
	Acts     *admin.Acts   // required
	Logger   *slog.Logger  // required
	Payloads payload.Rule
	Settings []Setting // of the worker, for the settings page; no secrets
	Version  string

	// Projections and Catalogue are the code of this process, with which pages show earlier states.
	Projections []projection.Projection
	Catalogue   *catalogue.Catalogue

	Secure func(*http.Request) bool // reports whether the browser's connection is encrypted; default: checks r.TLS
}

// Setting is a setting of the worker.
type Setting struct{ Name, Value, Usage string }

// Pages serves the pages. It is safe for concurrent use.
type Pages struct {
	cfg       Config
	templates map[string]*template.Template
	mux       *http.ServeMux
	history   *history
}

// New returns the pages. [Pages.Run] updates their menu.
func New(cfg Config) (*Pages, error) {
	if cfg.Pool == nil || cfg.Acts == nil || cfg.Logger == nil {
		return nil, errors.New("pages: Pool, Acts and Logger are needed")
	}
	if cfg.Secure == nil {
		cfg.Secure = func(r *http.Request) bool { return r.TLS != nil }
	}
	t, err := loadTemplates()
	if err != nil {
		return nil, fmt.Errorf("templates of the pages: %w", err)
	}
	p := &Pages{
		cfg: cfg, templates: t, mux: http.NewServeMux(),
		history: &history{reader: &status.Reader{Pool: cfg.Pool}, log: cfg.Logger},
	}
	p.routes()
	return p, nil
}

// ServeHTTP serves a page. The request's context holds the sender's identity ([auth.From]).
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// Run reads the status for the menu until ctx ends, and returns nil.
func (p *Pages) Run(ctx context.Context) error { return p.history.run(ctx) }

type reading func(ctx context.Context, r *http.Request) (view, error)

// show returns the handler of a read-only page with this template. It rejects group, projection, topic
// and publisher names that do not exist.
func (p *Pages) show(template string, read reading) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v view
		err := admin.NamesIn(r.URL.Query().Get).Check(r.Context(), p.cfg.Pool)
		if err == nil {
			v, err = read(r.Context(), r)
			v.Name = cmp.Or(v.Name, template)
		}
		if err != nil {
			v = p.failed(r.Context(), err)
		}
		p.write(r.Context(), w, r, v)
	})
}

func (p *Pages) failed(ctx context.Context, err error) view {
	var refused *problem.Problem
	var unknown *admin.UnknownNameError
	err = status.NoSchema(ctx, p.cfg.Pool, err)
	answer, ok := operator.AnswerTo(err)
	switch {
	case errors.As(err, &refused):
	case errors.As(err, &unknown):
		refused = problem.New(http.StatusBadRequest, err.Error(), "choose another").Of(unknown.Kind, unknown.Name,
			strings.Join(unknown.Known, ", "))
	case redact.SQLState(err) == "57014", errors.Is(err, context.DeadlineExceeded):
		if ctx.Err() == nil {
			p.cfg.Logger.WarnContext(ctx, "a page took too long to read", "error", err)
		}
		refused = problem.New(http.StatusServiceUnavailable, "the database took too long to answer",
			"narrow the filter, or have tidemark doctor look at the server")
	case ok:
		refused = problem.New(answer.Status, redact.Error(err), answer.Page)
	default:
		if ctx.Err() == nil {
			p.cfg.Logger.ErrorContext(ctx, "read a page", "error", err)
		}
		refused = problem.New(http.StatusServiceUnavailable, "the database answered with an error",
			"try again; the worker's log says more")
	}
	return view{Name: "problem", Title: http.StatusText(refused.Status), Status: refused.Status, Data: refused}
}

func (p *Pages) frame(w http.ResponseWriter, r *http.Request, v view) frame {
	id := auth.From(r.Context())
	return frame{
		Title: v.Title, Place: p.cfg.Pool.Config().ConnConfig.Database, Back: r.URL.RequestURI(),
		Menu: p.menu(r), User: id.Name, Role: id.Role.String(), Flash: p.said(w, r), Now: time.Now(), Data: v.Data,
		Key: rand.Text(), id: id, bare: !p.cfg.Payloads.Sees(id), LogOut: id.Via == "session",
		across: sync.OnceValues(func() (map[string]bool, error) { return p.across(r.Context()) }),
	}
}

// across returns the names of the projections across campaigns, whose rows have keys instead of campaigns.
func (p *Pages) across(ctx context.Context) (map[string]bool, error) {
	all, err := rebuild.Projections(ctx, p.cfg.Pool)
	names := map[string]bool{}
	for _, r := range all {
		if r.Scope == "journal" {
			names[r.Name] = true
		}
	}
	return names, err
}

// routes registers every URL. A page's template is named after its path, with _ for /. Changes are
// POST requests; the act checks the sender's role.
func (p *Pages) routes() {
	for path, page := range map[string]struct {
		takes string // the parameters of its address
		read  reading
	}{
		"/{$}":             {"", p.overview},
		"/campaign":        {"id seq slide was until", p.campaign},
		"/event":           {"campaign seq", p.event},
		"/failed/campaign": {"projection campaign", p.failedCampaign},
		"/operation":       {"id after", p.operation},
		"/publishers/pair": {"topic publisher", p.publisher},
		"/settings":        {"", p.readSettings},
	} {
		template := strings.NewReplacer("{$}", "overview", "/", "_").Replace(path[1:])
		p.mux.Handle("GET "+path, p.show(template, func(ctx context.Context, r *http.Request) (view, error) {
			if err := takes(r, strings.Fields(page.takes)); err != nil {
				return view{}, err
			}
			return page.read(ctx, r)
		}))
	}
	for _, all := range listPages() {
		p.mux.Handle("GET "+all.Path, p.show("list", p.list(all)))
	}
	p.mux.Handle("GET /act/{act}", p.show("plan", p.plan))
	p.mux.Handle("GET /", p.show("problem", p.readNothing))
	p.mux.HandleFunc("POST /act/{act}", p.act)
	p.mux.HandleFunc("GET /event/payload", p.servePayload)
	p.mux.HandleFunc("GET /static/{name}", serveAsset)
}

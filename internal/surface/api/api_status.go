package api

import (
	"net/http"
	"slices"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/status"
)

func (a *API) statusRoutes() []Route {
	return []Route{
		{
			http.MethodGet, "/api/v1/openapi.yaml", auth.Viewer, "getDescription",
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/yaml")
				_, _ = w.Write(description)
			}),
		},
		a.reads("/me", "getMe", func(r *http.Request) (any, error) {
			id := auth.From(r.Context())
			return document.One(map[string]string{"name": id.Name, "role": id.Role.String(), "via": id.Via}), nil
		}),
		a.reads("/status", "getStatus", a.readStatus),
		a.reads("/doctor", "getDoctor", a.examine),
	}
}

// examine answers the doctor's findings, but for those that are about the process that asks: its mode and its pool.
func (a *API) examine(r *http.Request) (any, error) {
	findings, err := doctor.Run(r.Context(), a.cfg.Pool, doctor.Options{})
	if err != nil {
		return nil, err
	}
	findings = slices.DeleteFunc(findings, func(f doctor.Finding) bool { return f.Check == "mode" || f.Check == "pool" })
	return document.Examination(findings), nil
}

func (a *API) readStatus(r *http.Request) (any, error) {
	q := parameters(r)
	sections := choices(q, "section", status.Sections())
	if err := q.done(); err != nil {
		return nil, err
	}
	s, err := a.status.Read(r.Context(), sections...)
	if err != nil {
		return nil, err
	}
	return document.Status(s), nil
}

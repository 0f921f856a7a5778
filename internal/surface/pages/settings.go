package pages

import (
	"context"
	"net/http"

	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

type settingsPage struct {
	Version  string
	Settings []Setting
	Payloads string
	Max      int32 // connections of the pages
}

// readSettings shows how this worker was set up. Nothing is changed here.
func (p *Pages) readSettings(context.Context, *http.Request) (view, error) {
	return view{
		Title: "Settings",
		Data: &settingsPage{
			Version: p.cfg.Version, Settings: p.cfg.Settings, Payloads: p.cfg.Payloads.String(),
			Max: p.cfg.Pool.Config().MaxConns,
		},
	}, nil
}

// readNothing answers an address that leads nowhere.
func (p *Pages) readNothing(_ context.Context, r *http.Request) (view, error) {
	return view{}, problem.New(http.StatusNotFound, "there is no page "+r.URL.Path, "start from the overview")
}

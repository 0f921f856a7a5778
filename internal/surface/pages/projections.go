package pages

import (
	"context"
	"net/http"
	"strings"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
)

type projectionsPage struct {
	Rows     []projectionRow
	Rebuilds []rebuildRow
	Groups   []string // whose gaps may be repaired
}

type projectionRow struct {
	rebuild.Registered
	Behind   *outbox.Behind
	Pause    *pause.Pause
	Kept     *rebuild.Registered // the tables that a rebuild has replaced
	Rebuilds bool                // it is being rebuilt
}

type rebuildRow struct {
	rebuild.Rebuild
	Done int64 // per cent
}

// projections shows the registry: what is read, what is being built, what was replaced.
func (p *Pages) projections(ctx context.Context, _ *http.Request) (view, error) {
	all, err := rebuild.Projections(ctx, p.cfg.Pool)
	if err != nil {
		return view{}, err
	}
	lags, err := outbox.Lag(ctx, p.cfg.Pool)
	if err != nil {
		return view{}, err
	}
	pauses, err := pause.List(ctx, p.cfg.Pool, "")
	if err != nil {
		return view{}, err
	}
	rebuilds, err := rebuild.Rebuilds(ctx, p.cfg.Pool, "")
	if err != nil {
		return view{}, err
	}
	page := &projectionsPage{}
	kept := map[string]*rebuild.Registered{}
	for i, reg := range all {
		if name, ok := strings.CutSuffix(reg.Name, "~previous"); ok {
			kept[name] = &all[i]
		}
	}
	for _, reg := range all {
		if strings.Contains(reg.Name, "~") {
			continue
		}
		row := projectionRow{Registered: reg, Kept: kept[reg.Name]}
		for i, l := range lags {
			if l.Projection == reg.Name {
				row.Behind = &lags[i]
			}
		}
		for i, pa := range pauses {
			if pa.Projection == reg.Name || pa.Group == reg.Group && pa.Projection == "" && pa.CampaignID == "" {
				row.Pause = &pauses[i]
			}
		}
		for _, re := range rebuilds {
			row.Rebuilds = row.Rebuilds || re.Projection == reg.Name
		}
		page.Rows = append(page.Rows, row)
	}
	for _, re := range rebuilds {
		page.Rebuilds = append(page.Rebuilds, rebuildRow{re, int64(100 * re.Progress())})
	}
	for _, l := range lags {
		if l.Projection == "" {
			page.Groups = append(page.Groups, l.Group)
		}
	}
	return view{Title: "Projections", Data: page}, nil
}

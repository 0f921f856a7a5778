package pages

import (
	"context"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
)

const (
	// aliveWithin is how long ago a worker that lives has been seen, at most.
	aliveWithin = 10 * time.Second
	// leaseLook is how many leases a page looks at for those that are held.
	leaseLook = 1000
)

// workerPages answers /workers.
type workerPages struct {
	pool *pgxpool.Pool
	now  func() time.Time
}

type workersPage struct {
	Rows   []workerRow
	Pauses []pause.Pause
	Leased int64
	Alive  int

	Groups []string
	Group  string // whose leases are shown
	All    bool   // those without a holder too
	Leases []lease.Row
	Pager  pager
}

type workerRow struct {
	lease.Worker
	Status string // "alive", "stale", "draining"
}

// list shows the processes and what they hold.
func (p workerPages) list(ctx context.Context, r *http.Request) (view, error) {
	workers, err := lease.Workers(ctx, p.pool)
	if err != nil {
		return view{}, err
	}
	page := &workersPage{}
	if page.Pauses, err = pause.List(ctx, p.pool, ""); err != nil {
		return view{}, err
	}
	for _, w := range workers {
		row := workerRow{Worker: w, Status: "alive"}
		if p.now().Sub(w.SeenAt) > aliveWithin {
			row.Status = "stale"
		} else {
			page.Alive++
		}
		if w.DrainedBy != "" {
			row.Status = "draining"
		}
		page.Leased += int64(w.CampaignsHeld)
		page.Rows = append(page.Rows, row)
	}
	return view{Title: "Workers", Data: page}, p.leases(ctx, r, page)
}

// leases shows the leases of a consumer group, in the order of their campaigns.
func (p workerPages) leases(ctx context.Context, r *http.Request, page *workersPage) error {
	groups, err := outbox.Groups(ctx, p.pool)
	if err != nil {
		return err
	}
	for _, g := range groups {
		page.Groups = append(page.Groups, g.Name)
	}
	page.Group, page.All = r.FormValue("group"), r.FormValue("all") != ""
	if page.Group == "" && len(page.Groups) > 0 {
		page.Group = page.Groups[0]
	}
	var from string
	if _, err := after(r, &from); err != nil {
		return err
	}
	look := leaseLook
	if page.All {
		look = perPage
	}
	looked, err := lease.List(ctx, p.pool, page.Group, from, look)
	if err != nil {
		return err
	}
	var next *string
	if len(looked) == look {
		next = &looked[look-1].CampaignID
	}
	for i, l := range looked {
		if !l.Held && !page.All {
			continue
		}
		page.Leases = append(page.Leases, l)
		if len(page.Leases) == perPage && i+1 < len(looked) {
			next = &l.CampaignID
			break
		}
	}
	shown := plural(len(page.Leases), "lease") + " on this page"
	if !page.All && len(looked) == leaseLook {
		shown += ", of the next " + count(leaseLook) + " campaigns"
	}
	page.Pager = pages(r, next, shown)
	return nil
}

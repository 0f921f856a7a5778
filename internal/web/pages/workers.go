package pages

import (
	"context"
	"net/http"
	"time"

	"github.com/tidemark-go/tidemark/pkg/lease"
	"github.com/tidemark-go/tidemark/pkg/pause"
)

// aliveWithin is how long ago a worker that lives has been seen, at most.
const aliveWithin = 10 * time.Second

type workersPage struct {
	Rows   []workerRow
	Pauses []pause.Pause
	Held   int64
	Alive  int
}

type workerRow struct {
	lease.Worker
	Status string // "alive", "stale", "draining"
}

// readWorkers shows the processes and what they hold.
func (p *Pages) readWorkers(ctx context.Context, _ *http.Request) (view, error) {
	workers, err := lease.Workers(ctx, p.cfg.Pool)
	if err != nil {
		return view{}, err
	}
	page := &workersPage{}
	if page.Pauses, err = pause.List(ctx, p.cfg.Pool, ""); err != nil {
		return view{}, err
	}
	for _, w := range workers {
		row := workerRow{Worker: w, Status: "alive"}
		if p.cfg.Now().Sub(w.SeenAt) > aliveWithin {
			row.Status = "stale"
		} else {
			page.Alive++
		}
		if w.DrainedBy != "" {
			row.Status = "draining"
		}
		page.Held += int64(w.CampaignsHeld)
		page.Rows = append(page.Rows, row)
	}
	return view{Name: "workers", Title: "Workers", Data: page}, nil
}

package pages

import (
	"context"
	"net/http"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

type publisherPage struct {
	publications.Publication
	History []publications.Record
}

// publisher shows one pair of a topic and a publisher.
func (p *Pages) publisher(ctx context.Context, r *http.Request) (view, error) {
	key := publications.Key{Topic: r.FormValue("topic"), Publisher: r.FormValue("publisher")}
	if key.Topic == "" || key.Publisher == "" {
		return view{}, problem.New(http.StatusBadRequest, "topic or publisher is missing", "follow a link of the list")
	}
	all, err := publications.List(ctx, p.cfg.Pool, key)
	if err != nil {
		return view{}, err
	}
	if len(all) == 0 {
		return view{}, problem.New(http.StatusNotFound, "no publisher "+key.String()+" is known",
			"it appears once a worker that has it configured has run")
	}
	page := &publisherPage{Publication: all[0]}
	page.History, err = publications.Log(ctx, p.cfg.Pool,
		publications.LogFilter{Topic: key.Topic, Publisher: key.Publisher, Limit: 20})
	return view{Title: key.String(), Data: page}, err
}

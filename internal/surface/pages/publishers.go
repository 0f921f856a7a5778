package pages

import (
	"context"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// publisherPages answers /publishers/pair.
type publisherPages struct {
	pool *pgxpool.Pool
	acts *admin.Acts
}

type publisherPage struct {
	publications.Publication
	History []publications.Record
	Preview *admin.Reset // of a rewind that was asked for; nil: none
	To      string       // where to, as the form had it
	At      string
}

// pair shows one pair and, where a rewind is prepared, what it would do.
func (p publisherPages) pair(ctx context.Context, r *http.Request) (view, error) {
	key := publicationOf(r)
	if key.Topic == "" || key.Publisher == "" {
		return view{}, problem.New(http.StatusBadRequest, "topic or publisher is missing", "follow a link of the list")
	}
	all, err := publications.List(ctx, p.pool, key)
	if err != nil {
		return view{}, err
	}
	if len(all) == 0 {
		return view{}, problem.New(http.StatusNotFound, "no publisher "+key.String()+" is known",
			"it appears once a worker that has it configured has run")
	}
	page := &publisherPage{Publication: all[0], To: r.FormValue("position"), At: r.FormValue("time")}
	if page.History, err = publications.Log(ctx, p.pool,
		publications.LogFilter{Topic: key.Topic, Publisher: key.Publisher, Limit: 20}); err != nil {
		return view{}, err
	}
	if to, asked, err := resetOf(r); err != nil {
		return view{}, err
	} else if asked {
		preview, err := p.acts.Publishers().PreviewReset(ctx, admin.Request{Who: auth.From(ctx)}, key, to, false)
		if err != nil {
			return view{}, problem.New(http.StatusBadRequest, err.Error(), "choose another place")
		}
		page.Preview = &preview.Publications[0].Reset
	}
	return view{Title: key.String(), Data: page}, nil
}

func publicationOf(r *http.Request) publications.Key {
	return publications.Key{Topic: r.FormValue("topic"), Publisher: r.FormValue("publisher")}
}

// resetOf reads where a rewind goes.
func resetOf(r *http.Request) (to publications.ResetTo, asked bool, err error) {
	if r.FormValue("position") != "" {
		n, err := number(r, "position", 0)
		to.Position = &n
		return to, true, err
	}
	at := r.FormValue("time")
	if at == "" {
		return to, false, nil
	}
	for _, layout := range []string{
		time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05",
		"2006-01-02 15:04", time.DateOnly,
	} {
		if to.Time, err = time.ParseInLocation(layout, at, time.UTC); err == nil {
			return to, true, nil
		}
	}
	return to, false, problem.New(http.StatusBadRequest, "time is none",
		"write it like 2026-01-31 13:45, in UTC").Of("time", at, "a time")
}

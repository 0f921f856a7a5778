package pages

import (
	"context"
	"net/http"
	"time"

	"github.com/tidemark-go/tidemark/internal/status"
)

type postgresPage struct {
	*status.Status
	Tiles    []tile
	Problems []shownProblem
}

// postgres shows the server's health, as far as it matters here.
func (p statusPages) postgres(ctx context.Context, _ *http.Request) (view, error) {
	s, err := p.reader.Read(ctx, status.SectionPostgres, status.SectionJournal)
	if err != nil {
		return view{}, err
	}
	for _, err := range s.Unread {
		return view{}, err
	}
	pg, j := s.Postgres, s.Journal
	used := 0
	if pg.MaxConnections > 0 {
		used = 100 * pg.Connections / pg.MaxConnections
	}
	oldest, end := pg.Oldest()
	page := &postgresPage{Status: s, Tiles: []tile{
		{
			Label: "Oldest transaction", Value: span(pg.OldestTransaction), Note: ended(oldest, end),
			Tone: above(pg.OldestTransaction, time.Minute, 10*time.Minute),
		},
		{
			Label: "Connections", Value: count(int64(pg.Connections)), Note: "of " + count(int64(pg.MaxConnections)),
			Tone: percent(used, 80, 95),
		},
		{
			Label: "Writer floor", Value: span(j.FloorAge), Tone: above(j.FloorAge, 30*time.Second, 5*time.Minute),
			Note: "open appends; publishers wait for the oldest: " + ended(j.FloorHolder, j.FloorRemedy),
		},
		{
			Label: "Until wraparound", Value: count(pg.WraparoundLeft / 1_000_000), Note: "million transactions",
			Tone: less(pg.WraparoundLeft, 500_000_000, 100_000_000),
		},
	}}
	page.Problems = shownProblems(s)
	return view{Title: "Postgres", Data: page}, nil
}

// ended names a transaction, with the statement that ends it.
func ended(name, remedy string) string {
	if name == "" {
		return "none to be seen"
	}
	return name + "; end it: " + remedy
}

func percent(n, warn, bad int) string {
	return above(time.Duration(n), time.Duration(warn), time.Duration(bad))
}

func less(n, warn, bad int64) string {
	switch {
	case n < bad:
		return "bad"
	case n < warn:
		return "warn"
	}
	return "ok"
}

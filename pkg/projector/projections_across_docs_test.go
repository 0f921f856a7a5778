package projector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// The projections across campaigns of docs/guides/projections.md.

func hosts() projection.Projection {
	return projection.Document[Attendance]{
		Name: "hosts", Version: 1, Scope: projection.ScopeJournal,
		Key: func(e event.Event) (string, error) { return e.Actor, nil },
		On:  attendance().On,
	}
}

func hostPlayers() projection.Projection {
	return projection.Handlers{
		Name: "totals", Version: 1, Scope: projection.ScopeJournal,
		Key:       func(e event.Event) (string, error) { return e.Actor, nil },
		KeyColumn: "host",
		Tables:    `CREATE TABLE totals (host text PRIMARY KEY, players bigint NOT NULL)`,
		On: []projection.Handler{
			projection.Handle("session_started", func(_ context.Context, g *projection.Group, e event.Event, s SessionStarted) error {
				g.Queue(`INSERT INTO totals AS t VALUES ($1, $2) ON CONFLICT (host) DO UPDATE SET players = t.players + $2`,
					e.Actor, len(s.Players))
				return nil
			}),
		},
	}
}

func sessionPlayers() projection.Projection {
	return projection.Document[int]{
		Name: "players", Version: 1, Types: []string{"session_started"},
		Scope: projection.ScopeJournal,
		Keys: func(e event.Event) ([]string, error) {
			started, err := event.Decode[SessionStarted](e)
			return started.Players, err
		},
		Fold: func(sessions *int, _ event.Event) error {
			*sessions++
			return nil
		},
	}
}

func TestTheProjectionsAcrossCampaignsOfThePageWork(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guides/projections.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("testdata/across/session_days.sql")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```text\n"+string(file)+"```\n") {
		t.Error("testdata/across/session_days.sql does not stand on the page, word for word")
	}
	projections, err := sqlfile.LoadDir(os.DirFS("testdata/across"))
	if err != nil {
		t.Fatal(err)
	}
	pool := pgtest.New(t)
	p := workerOf(t, pool, nil, append(projections, hosts(), hostPlayers(), sessionPlayers())...)
	for i := range 6 {
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, fmt.Sprint("table", i%3), journal.Any, event.Event{
				Type: "session_started", Actor: []string{"ann", "bob"}[i/4],
				OccurredAt: time.Date(2026, 5, 4+i/3, 12, 0, 0, 0, time.UTC),
				Payload:    json.RawMessage(fmt.Sprintf(`{"players": ["p%d", "q"]}`, i)),
			})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	drain(t, p)
	expectText(t, pool, "days", "2026-05-04 3, 2026-05-05 3",
		`SELECT string_agg(concat(to_char(day, 'YYYY-MM-DD'), ' ', started), ', ' ORDER BY day)
			FROM tidemark_views.session_days`)
	expectText(t, pool, "totals", "ann 8, bob 4",
		`SELECT string_agg(concat(host, ' ', players), ', ' ORDER BY host) FROM tidemark_views.totals`)
	expectText(t, pool, "players", "p0 1, p1 1, p2 1, p3 1, p4 1, p5 1, q 6",
		`SELECT string_agg(key || ' ' || doc, ', ' ORDER BY key) FROM tidemark_views.players`)
	expectText(t, pool, "hosts", "ann 4 p3, bob 2 p5", `SELECT string_agg(concat_ws(' ', key, doc->>'started',
		doc->'players'->>0), ', ' ORDER BY key) FROM tidemark_views.hosts`)
}

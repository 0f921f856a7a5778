package projector_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestHandlersAcrossCampaignsSeeEventsInTheOrderOfPosition has keys that fail in the handler, in the
// database, and are skipped. All others stay in order, whatever the order of their keys.
func TestHandlersAcrossCampaignsSeeEventsInTheOrderOfPosition(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	seen := &projection.Handlers{
		Name: "seen", Version: 1, Scope: projection.ScopeJournal,
		Key: func(e event.Event) (string, error) {
			p, err := event.Decode[scored](e)
			return p.Player, err
		},
		Tables:      `CREATE TABLE seen (place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event uuid UNIQUE, player text)`,
		OnFailureOf: map[string]projection.Policy{"passed": {Action: projection.ActionSkip}},
		Classify:    func(error) projection.Class { return projection.ClassPermanent },
	}
	const inCode, inDatabase = 1, 2
	on := func(_ context.Context, g *projection.Group, e event.Event, p scored) error {
		if p.Points == inCode {
			return errRefused
		}
		if p.Points == inDatabase {
			g.Queue(`SELECT 1 / ($1 - 2)`, p.Points)
		}
		g.Queue(`INSERT INTO seen (event, player) VALUES ($1, $2)`, e.ID, p.Player)
		return nil
	}
	seen.On = append(seen.On, projection.Handle("scored", on))
	seen.On = append(seen.On, projection.Handle("passed", on))
	p := workerOf(t, pool, nil, seen)

	const games, rounds, players = 7, 60, 11
	for round := range rounds {
		for game := range games {
			n := round*games + game
			one, kind := scored{Player: fmt.Sprint("p", n*5%players), Points: 10}, "scored"
			switch n {
			case 100, 200, 300:
				one.Points = inCode
			case 150, 151, 201, 350:
				one.Points = inDatabase
			}
			if n/10 == 20 {
				kind = "passed"
			}
			payload := fmt.Appendf(nil, `{"player": %q, "points": %d}`, one.Player, one.Points)
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := journal.Journal{}.Append(t.Context(), tx, fmt.Sprint("game", game), journal.Any,
					event.Event{Type: kind, Payload: payload})
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	drain(t, p)
	expectText(t, pool, "players held back", "5", `SELECT count(*)::text FROM tidemark.failed WHERE projection = 'seen'`)
	expectText(t, pool, "rows out of order", "0", `SELECT count(*)::text FROM (SELECT j.position < lag(j.position)
		OVER (ORDER BY s.place) AS before FROM tidemark_views.seen s JOIN tidemark.journal j ON j.event_id = s.event) p
		WHERE before`)
	expectText(t, pool, "events of players that are not held back, and of the others before they failed", "0",
		`SELECT count(*)::text FROM tidemark.journal j LEFT JOIN tidemark_views.seen s ON s.event = j.event_id
			LEFT JOIN tidemark.failed d ON d.projection = 'seen' AND d.campaign_id = j.payload ->> 'player'
			WHERE (s.event IS NULL) = (d.next_seq IS NULL OR j.position < d.next_seq)
				AND (j.event_type <> 'passed' OR (j.payload ->> 'points')::int = 10)`)
}

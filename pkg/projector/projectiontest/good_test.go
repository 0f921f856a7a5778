package projectiontest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector/projectiontest"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestCorrectProjectionsPass(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	file, err := sqlfile.Load(fstest.MapFS{"seats.sql": {Data: []byte(seatsSQL)}}, "seats.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, projection := range []projection.Projection{
		file, seatHandlers(), seatDocuments(), playerFile(t), playerHandlers(), playerDocuments(), playerProcess(),
		tableDocuments(),
	} {
		t.Run(projection.Spec().Name, func(t *testing.T) {
			projectiontest.Run(t, pool, projection, seatEvents())
		})
	}
}

const seatsSQL = `-- projection: seats_by_file
-- version: 1
CREATE TABLE seats_by_file (campaign_id text, seat text, taken_by text, since timestamptz,
	PRIMARY KEY (campaign_id, seat));
-- on: seat_taken
INSERT INTO seats_by_file VALUES (event.campaign_id, event.payload->>'seat', event.payload->>'by', event.recorded_at)
ON CONFLICT (campaign_id, seat) DO UPDATE SET taken_by = excluded.taken_by, since = excluded.since;
-- on: seat_left
DELETE FROM seats_by_file WHERE campaign_id = event.campaign_id AND seat = event.payload->>'seat';
`

type seat struct {
	Seat string `json:"seat"`
	By   string `json:"by"`
}

func seatHandlers() projection.Projection {
	return projection.Handlers{
		Name: "seats_by_handlers", Version: 1, Tables: `
		CREATE TABLE seats_by_handlers (campaign_id text, seat text, taken_by text, PRIMARY KEY (campaign_id, seat));
		CREATE TABLE seat_history (campaign_id text, position bigint, PRIMARY KEY (campaign_id, position))`,
		On: []projection.Handler{
			projection.Handle("seat_taken", func(_ context.Context, g *projection.Group, e event.Event, s seat) error {
				g.Queue(`INSERT INTO seats_by_handlers VALUES ($1, $2, $3) ON CONFLICT (campaign_id, seat) DO UPDATE
			SET taken_by = excluded.taken_by`, e.CampaignID, s.Seat, s.By)
				g.Queue(`INSERT INTO seat_history VALUES ($1, $2)`, e.CampaignID, e.Position)
				return nil
			}),
			projection.Handle("seat_left", func(ctx context.Context, g *projection.Group, e event.Event, s seat) error {
				tx, err := g.Tx(ctx)
				if err != nil {
					return err
				}
				_, err = tx.Exec(ctx, `DELETE FROM seats_by_handlers WHERE campaign_id = $1 AND seat = $2`, e.CampaignID, s.Seat)
				return err
			}),
		},
	}
}

func seatDocuments() projection.Projection {
	return projection.Document[seat]{
		Name: "seats_by_document", Version: 1, Types: []string{"seat_taken", "seat_left"},
		Key: func(e event.Event) (string, error) {
			s, err := event.Decode[seat](e)
			return s.Seat, err
		},
		Fold: func(doc *seat, e event.Event) error {
			if e.Type == "seat_left" {
				return event.Delete
			}
			var err error
			*doc, err = event.Decode[seat](e)
			return err
		},
	}
}

// playerOf is the key of projections across campaigns.
func playerOf(e event.Event) (string, error) {
	s, err := event.Decode[seat](e)
	return s.By, err
}

func playerFile(t *testing.T) projection.Projection {
	t.Helper()
	file, err := sqlfile.Load(fstest.MapFS{"players.sql": {Data: []byte(playersSQL)}}, "players.sql")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

const playersSQL = `-- projection: players_by_file
-- version: 1
-- scope: journal
-- key: player = event.payload->>'by'
CREATE TABLE players_by_file (player text PRIMARY KEY, seats int, latest text);
-- on: seat_taken
INSERT INTO players_by_file AS p VALUES (event.payload->>'by', 1, event.campaign_id)
ON CONFLICT (player) DO UPDATE SET seats = p.seats + 1, latest = excluded.latest;
`

// playerHandlers names no key: its row is about all campaigns.
func playerHandlers() projection.Projection {
	return projection.Handlers{
		Name: "latest_by_handlers", Version: 1, Scope: projection.ScopeJournal,
		Tables: `CREATE TABLE latest_by_handlers (one int PRIMARY KEY, latest text)`,
		On: []projection.Handler{
			projection.Handle("seat_taken", func(_ context.Context, g *projection.Group, e event.Event, s seat) error {
				g.Queue(`INSERT INTO latest_by_handlers VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET latest = excluded.latest`,
					fmt.Sprint(e.CampaignID, s.By))
				return nil
			}),
		},
	}
}

// taken is how many seats a player has taken, and where the latest was.
type taken struct {
	Seats  int    `json:"seats"`
	Latest string `json:"latest"`
}

func (d *taken) take(e event.Event) error {
	if e.Type == "seat_taken" {
		d.Seats++
		d.Latest = e.CampaignID
	}
	return nil
}

func playerDocuments() projection.Projection {
	return projection.Document[taken]{
		Name: "players_by_document", Version: 1, Scope: projection.ScopeJournal, Partitions: 3, Key: playerOf,
		Fold: (*taken).take,
	}
}

// tableDocuments has documents of tables and of their seats. Those of a table share its events.
func tableDocuments() projection.Projection {
	return projection.Document[taken]{
		Name: "tables_by_document", Version: 1, Scope: projection.ScopeJournal, Partitions: 3, Fold: (*taken).take,
		Keys: func(e event.Event) ([]string, error) {
			s, err := event.Decode[seat](e)
			return []string{e.CampaignID + ", seat " + s.Seat, e.CampaignID}, err
		},
	}
}

func playerProcess() projection.Projection {
	return projection.Process[taken]{
		Name: "greeter", Version: 1, Key: playerOf, Fold: (*taken).take,
		React: []projection.Reaction[taken]{
			projection.React("seat_taken", func(d *taken, _ event.Event, _ struct{}) ([]projection.Do, error) {
				if d.Seats != 2 {
					return nil, nil
				}
				return []projection.Do{{Campaign: "greetings", Events: []event.Event{{Type: "greeted"}}}}, nil
			}),
		},
	}
}

// seatEvents returns events of three interleaved campaigns: players take seats, take over seats and
// leave them.
func seatEvents() []event.Event {
	var events []event.Event
	for i := range 24 {
		payload, err := json.Marshal(seat{Seat: fmt.Sprint(i / 3 % 4), By: fmt.Sprint("player ", i%5)})
		if err != nil {
			panic(err)
		}
		event := event.Event{CampaignID: fmt.Sprint("table ", i%3), Type: "seat_taken", Payload: payload}
		if i%7 == 5 {
			event.Type = "seat_left"
		}
		events = append(events, event)
	}
	return events
}

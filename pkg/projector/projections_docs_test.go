package projector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector/projectiontest"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// The projections of docs/guides/projections.md. The SQL file of that page is
// testdata/sqlfile/sessions.sql.

type Attendance struct {
	Started int       `json:"started"`
	Players []string  `json:"players"`
	Latest  time.Time `json:"latest"`
}

type SessionStarted struct {
	SessionID string   `json:"session_id"`
	Players   []string `json:"players"`
}

func attendance() projection.Document[Attendance] {
	return projection.Document[Attendance]{
		Name: "attendance", Version: 1,
		On: event.Folds[Attendance]{
			event.On("session_started", func(a *Attendance, e event.Event, started SessionStarted) error {
				a.Started++
				a.Players = started.Players
				a.Latest = e.OccurredAt
				return nil
			}),
		},
		Columns: "started bigint GENERATED ALWAYS AS ((doc->>'started')::bigint) STORED",
		Indexes: "CREATE INDEX ON attendance (started)",
	}
}

func players() projection.Projection {
	return projection.Handlers{
		Name: "players", Version: 1,
		Tables: `CREATE TABLE players (campaign_id text, player text, sessions bigint NOT NULL,
			PRIMARY KEY (campaign_id, player))`,
		On: []projection.Handler{
			projection.Handle("session_started", func(_ context.Context, g *projection.Group, e event.Event,
				s SessionStarted,
			) error {
				for _, player := range s.Players {
					g.Queue(`INSERT INTO players AS p VALUES ($1, $2, 1) ON CONFLICT (campaign_id, player) DO UPDATE
				SET sessions = p.sessions + 1`,
						e.CampaignID, player)
				}
				return nil
			}),
		},
	}
}

func loadProjections(dir string) ([]projection.Projection, error) {
	files, err := sqlfile.LoadDir(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	return append(files, attendance(), players()), nil
}

func sessionEvents() []event.Event {
	var events []event.Event
	add := func(campaign, eventType, payload string) {
		events = append(events, event.Event{CampaignID: campaign, Type: eventType, Payload: json.RawMessage(payload)})
	}
	for i := range 5 {
		for _, campaign := range []string{"oak", "ash"} {
			add(campaign, "session_started", fmt.Sprintf(`{"session_id": "s%d", "players": ["ann", "player %d"]}`, i, i))
			add(campaign, []string{"session_ended", "session_aborted"}[i%2], fmt.Sprintf(`{"session_id": "s%d"}`, i))
		}
	}
	return events
}

func TestProjectionsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guides/projections.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("shows the SQL file that is tested", func(t *testing.T) {
		t.Parallel()
		file, err := os.ReadFile("testdata/sqlfile/sessions.sql")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "```text\n"+string(file)+"```\n") {
			t.Error("testdata/sqlfile/sessions.sql does not stand on the page, word for word")
		}
	})
	t.Run("names every field of an event", func(t *testing.T) {
		t.Parallel()
		_, err := sqlfile.Load(fstest.MapFS{"x.sql": {Data: []byte("-- projection: x\n-- version: 1\nCREATE TABLE x " +
			"();\n-- on: x\nSELECT event.x;")}}, "x.sql")
		if err == nil {
			t.Fatal("event.x is no field")
		}
		_, names, _ := strings.Cut(err.Error(), "there are ")
		for name := range strings.SplitSeq(names, ", ") {
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("%s is not on the page", name)
			}
		}
	})
	t.Run("shows a mistake as it is reported", func(t *testing.T) {
		t.Parallel()
		file, err := os.ReadFile("testdata/sqlfile/sessions.sql")
		if err != nil {
			t.Fatal(err)
		}
		wrong := strings.Replace(string(file), "UPDATE sessions SET ended_at", "UPDATE sessions SET endet_at", 1)
		projection, err := sqlfile.Load(fstest.MapFS{"sessions.sql": {Data: []byte(wrong)}}, "sessions.sql")
		if err != nil {
			t.Fatal(err)
		}
		err = newProjector(t, pgtest.New(t), projection).Register(t.Context())
		if err == nil || !strings.Contains(string(page), err.Error()+"\n") {
			t.Errorf("the page does not show %v", err)
		}
	})
	t.Run("shows projections that keep their promises", func(t *testing.T) {
		t.Parallel()
		projections, err := loadProjections("testdata/sqlfile")
		if err != nil {
			t.Fatal(err)
		}
		for _, projection := range projections {
			t.Run(projection.Spec().Name, func(t *testing.T) {
				t.Parallel()
				pool := pgtest.New(t)
				projectiontest.Run(t, pool, projection, sessionEvents())
			})
		}
	})
}

package pages_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/pages"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/web"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/acting"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// Hostile texts contain markup, characters that are invisible or change the text direction, and
// more text than fits.
const (
	hostileID   = "<img src=x onerror=alert(1)>"
	hostileText = `</pre><script>document.title='owned'</script> "quoted" {{.}} ` +
		"\u202Egnp.exe\u202C \u2066hidden\u2069 zero\u200Bwidth\x07bell"
	megabyte = 1 << 20
)

// world is an installation with everything that a person on call may meet.
type world struct {
	pool  *pgxpool.Pool
	base  string
	token map[auth.Role]string
}

type hero struct {
	Name string `json:"name"`
	HP   int    `json:"hp"`
}

// heroes keeps a document for each hero.
func heroes() projection.Projection {
	return projection.Document[hero]{
		Name: "heroes", Version: 1, Types: []string{"hero_joined", "hero_wounded"},
		Key: func(e event.Event) (string, error) { return e.AggregateID, nil },
		Fold: func(h *hero, e event.Event) error {
			if e.Type == "hero_joined" {
				return json.Unmarshal(e.Payload, h)
			}
			var wound struct{ Points int }
			h.HP -= 3
			return json.Unmarshal(e.Payload, &wound)
		},
	}
}

// scores panics on each cursed event until it is mended.
func scores(mended func() bool) projection.Projection {
	return projection.Handlers{
		Name: "scores", Version: 1, Types: []string{"hero_wounded", "cursed", "entombed"},
		OnFailure:   projection.Policy{Action: projection.ActionDead},
		OnFailureOf: map[string]projection.Policy{"cursed": {Action: projection.ActionDead}},
		Tables: `CREATE TABLE scores (campaign_id text NOT NULL, hero text NOT NULL, points bigint NOT NULL,
			PRIMARY KEY (campaign_id, hero))`,
		On: []projection.Handler{
			projection.Handle("hero_wounded", func(_ context.Context, g *projection.Group, e event.Event,
				_ struct{ Points int },
			) error {
				g.Queue(`INSERT INTO scores AS s VALUES ($1, $2, 3) ON CONFLICT (campaign_id, hero) DO UPDATE
			SET points = s.points + 3`, e.CampaignID, e.AggregateID)
				return nil
			}),
			projection.Handle("entombed", func(context.Context, *projection.Group, event.Event, struct{}) error {
				return projection.Permanent(errors.New("scores: the door is shut"))
			}),
			projection.Handle("cursed", func(_ context.Context, _ *projection.Group, e event.Event, _ struct{}) error {
				if mended() {
					return nil
				}
				panic("scores: cannot divide by a curse" + strings.Repeat("!", len(e.CampaignID)%3))
			}),
		},
	}
}

// refuser is a sink that refuses cursed events.
type refuser struct{}

func (refuser) Name() string { return "refuser" }

func (refuser) Publish(_ context.Context, events []publisher.Event) error {
	var failures []publisher.Failure
	failed := map[string]bool{}
	for i, e := range events {
		switch {
		case failed[e.CampaignID]:
			failures = append(failures, publisher.Failure{Index: i, Err: publisher.ErrNotTried})
		case e.Type == "cursed":
			failed[e.CampaignID] = true
			failures = append(failures, publisher.Failure{
				Index: i,
				Err:   errors.New("422: " + strings.Replace(hostileText, "</pre>", "</code>", 1)), Permanent: true,
			})
		}
	}
	if failures != nil {
		return &publisher.BatchError{Failures: failures}
	}
	return nil
}

// taker is a sink that accepts every event.
type taker struct{}

func (taker) Name() string                                     { return "taker" }
func (taker) Publish(context.Context, []publisher.Event) error { return nil }

func heroEvents(n int) []event.Event {
	events := []event.Event{{
		Type: "hero_joined", AggregateType: "hero", AggregateID: "alina", Actor: "dm",
		Tags: []string{"hero=alina"}, Payload: json.RawMessage(`{"name":"Alina","hp":60}`),
	}}
	for i := 1; i < n; i++ {
		events = append(events, event.Event{
			Type: "hero_wounded", AggregateType: "hero", AggregateID: "alina",
			Actor: "goblin-" + fmt.Sprint(i%3), Payload: json.RawMessage(`{"points":3}`),
			Metadata: json.RawMessage(`{"trace":"4bf92f35"}`),
		})
	}
	return events
}

// newWorld fills a database and serves it until the test ends.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{pool: pgtest.New(t), token: map[auth.Role]string{}}
	w.fill(t)
	w.serve(t, worldCode())
	return w
}

// fillWorld fills a database for [copyWorld] and returns its URL.
func fillWorld(t *testing.T) string {
	t.Helper()
	url := pgtest.URL(t)
	pool, err := pgxpool.New(t.Context(), pgtest.UTF8(url))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	(&world{pool: pool}).fill(t)
	return url
}

// copyWorld serves a copy of a filled database for one test.
func copyWorld(t *testing.T, filled string) *world {
	t.Helper()
	w := &world{pool: pgtest.Copy(t, filled), token: map[auth.Role]string{}}
	w.serve(t, worldCode())
	return w
}

func worldCode() []projection.Projection {
	return []projection.Projection{heroes(), scores(func() bool { return false })}
}

func (w *world) fill(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	code := worldCode()
	drain := func() {
		t.Helper()
		p, err := projector.New(projector.Config{Pool: w.pool, Projections: code})
		if err == nil {
			_, err = p.Drain(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	drain() // registers the projections
	journey := []event.Event{{Type: "entombed", AggregateID: "imp", Payload: json.RawMessage(`{"door":"stone"}`)}}
	w.append(t, "oak", heroEvents(12)...)
	for i := range 6 {
		w.append(t, fmt.Sprintf("tomb-%d", i), journey...)
	}
	for i := range 9 {
		campaign := fmt.Sprintf("cave-%02d", i)
		w.append(t, campaign, heroEvents(3+i)...)
		w.append(t, campaign, event.Event{
			Type: "cursed", AggregateID: "imp",
			Payload: json.RawMessage(`{"spell":"hex","strength":13}`),
		})
	}
	large, err := json.Marshal(map[string]string{"note": hostileText, "large": strings.Repeat("ж", (megabyte-4096)/2)})
	if err != nil {
		t.Fatal(err)
	}
	w.append(t, hostileID, event.Event{Type: "cursed", Actor: hostileText, AggregateID: "x", Payload: large})
	drain()
	w.relay(t)
	w.append(t, "waiting-room", heroEvents(4)...)
	w.append(t, "oak", heroEvents(3)...)
	if _, err := w.pool.Exec(ctx, `INSERT INTO tidemark.keys (id, subject, wrapped, wrapped_by)
		VALUES ($1, sha256('eve'), sha256('x'), 'a')`, brokenKey); err != nil {
		t.Fatal(err)
	}
	if _, err := w.pool.Exec(ctx, `INSERT INTO tidemark.workers (owner, consumer_group, host, pid, started_at, seen_at,
		campaigns_held, events_applied)
		VALUES ('worker-a-1', 'default', 'node-a', 4242, now() - interval '3 hours', now(), 12, 90210),
			('worker-b-7', 'default', 'node-b', 77, now() - interval '9 hours', now() - interval '5 minutes', 0,
			1234567)`); err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.AppendAt(ctx, tx, hostileID, time.Now().Add(time.Hour), event.Event{Type: "cursed"})
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) append(t *testing.T, campaign string, events ...event.Event) {
	t.Helper()
	for i := range events {
		events[i].ID = uuid.New()
	}
	err := pgx.BeginFunc(t.Context(), w.pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any, events...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// relay publishes until all cursed events are parked and all others are sent. A pair that has only
// skipped events writes its position after some seconds or when it stops, so relay does not wait
// for the position after the last parked event.
func (w *world) relay(t *testing.T) {
	t.Helper()
	relay, err := publisher.New(publisher.Config{
		Pool: w.pool, Topics: []publisher.Topic{{Name: "campaign-events"}}, PollInterval: 100 * time.Millisecond,
		Publishers: []publisher.Publisher{{
			Name: "billing", Sink: refuser{}, Topics: []string{"campaign-events"},
			Attempts: 1,
		}, {Name: "audit-trail", Sink: taker{}, Topics: []string{"campaign-events"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	for ctx.Err() == nil {
		all, err := publications.List(ctx, w.pool, publications.Key{})
		if err == nil && len(all) == 2 && all[0].Parked+all[1].Parked == 10 && min(all[0].Behind, all[1].Behind) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			t.Error("the relay has not parked what is cursed")
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	all, err := publications.List(t.Context(), w.pool, publications.Key{})
	if err != nil || len(all) != 2 || all[0].Behind+all[1].Behind > 0 {
		t.Fatalf("a publisher is behind: %+v, %v", all, err)
	}
}

func (w *world) serve(t *testing.T, code []projection.Projection) {
	t.Helper()
	verifier, err := projector.New(projector.Config{Pool: w.pool, Projections: code})
	if err != nil {
		t.Fatal(err)
	}
	on := admin.Config{
		Pool: w.pool, Catalogue: acting.Sealed(), Topics: []publisher.Topic{{Name: "campaign-events"}},
		Publishers: []publisher.Publisher{{Name: "billing", Sink: refuser{}, Topics: []string{"campaign-events"}}},
	}
	on.Archive, err = archive.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	on.Projector = verifier
	for _, p := range code {
		on.Projections = append(on.Projections, p.Spec().Name)
	}
	acts, err := admin.New(on)
	if err != nil {
		t.Fatal(err)
	}
	server, err := web.New(t.Context(), web.Config{
		Addr: "127.0.0.1:0", Pool: w.pool, Acts: acts, Version: "test", Payloads: payload.Rule{Least: auth.Operator},
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Projections: code,
		Settings: []pages.Setting{{Name: "TIDEMARK_CONCURRENCY", Value: "8", Usage: "groups applied at once"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the listener ended with: %v", err)
		}
	})
	runner, err := admin.NewRunner(admin.RunnerConfig{ // has no publisher billing, so replays to it wait
		Pool: w.pool, Owner: "the test's worker", Interval: 20 * time.Millisecond, Batch: 2, Projector: verifier,
		Projections: []string{"heroes", "scores"},
		Topics:      []publisher.Topic{{Name: "campaign-events"}},
		Publishers:  []publisher.Publisher{{Name: "audit-trail", Sink: taker{}, Topics: []string{"campaign-events"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- runner.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ran; err != nil {
			t.Errorf("the runner ended with: %v", err)
		}
	})
	w.base = "http://" + server.Addr().String()
	for _, role := range []auth.Role{auth.Viewer, auth.Operator, auth.Admin} {
		if w.token[role], err = auth.Create(t.Context(), w.pool, role.String(), role, 0, auth.Identity{Name: "the test"},
			""); err != nil {
			t.Fatal(err)
		}
	}
}

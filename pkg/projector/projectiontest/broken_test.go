package projectiontest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestBrokenProjectionsAreCaught runs projections that each break one promise, and expects the rule
// for it to fail.
func TestBrokenProjectionsAreCaught(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tests := []struct {
		name, tables string
		apply        func(context.Context, *projection.Group) error
		caughtBy     string // a rule that must catch it
		across       string // the rule that must catch it across campaigns, with the campaign as its key
	}{
		{
			"reads the clock", `CREATE TABLE bad (campaign_id text, seq bigint, at timestamptz)`,
			func(_ context.Context, g *projection.Group) error {
				for _, e := range g.Events {
					g.Queue(`INSERT INTO bad VALUES ($1, $2, clock_timestamp())`, e.CampaignID, e.Seq)
				}
				return nil
			}, "applied from the start once more", "applied from the start once more",
		},
		{
			"keeps state in memory", `CREATE TABLE bad (campaign_id text, total bigint)`, remembering(),
			"applied from the start once more", "a rolled back group leaves nothing",
		},
		{
			"counts its groups", `CREATE TABLE bad (campaign_id text PRIMARY KEY, n bigint)`,
			func(_ context.Context, g *projection.Group) error {
				for _, e := range g.Events[:1] {
					g.Queue(`INSERT INTO bad AS b VALUES ($1, 1) ON CONFLICT (campaign_id) DO UPDATE SET n = b.n + 1`, e.CampaignID)
				}
				return nil
			}, "one event a transaction equals all in one", "one event a transaction equals all in one",
		},
		{
			"mixes campaigns", `CREATE TABLE bad (campaign_id text PRIMARY KEY, latest text)`,
			func(_ context.Context, g *projection.Group) error {
				for _, e := range g.Events {
					g.Queue(`INSERT INTO bad VALUES ('all', $1) ON CONFLICT (campaign_id) DO UPDATE
						SET latest = excluded.latest`, fmt.Sprint(e.CampaignID, e.Seq))
				}
				return nil
			}, "interleaved campaigns equal one after another", "keys apart equal keys together",
		},
		{
			"numbers rows across campaigns", `CREATE TABLE bad (id bigint GENERATED ALWAYS AS IDENTITY, campaign_id text,
				seq bigint)`,
			func(_ context.Context, g *projection.Group) error {
				for _, e := range g.Events {
					g.Queue(`INSERT INTO bad (campaign_id, seq) VALUES ($1, $2)`, e.CampaignID, e.Seq)
				}
				return nil
			}, "a rolled back group leaves nothing", "a rolled back group leaves nothing",
		},
		{
			"makes tables as it goes", `CREATE TABLE bad (campaign_id text)`,
			func(_ context.Context, g *projection.Group) error {
				g.Queue(`CREATE TABLE IF NOT EXISTS tidemark_views.undeclared (campaign_id text)`)
				g.Queue(`INSERT INTO bad SELECT $1 WHERE NOT EXISTS (SELECT FROM bad
					WHERE campaign_id = $1)`, g.Events[0].CampaignID)
				return nil
			}, "only its own tables are touched", "only its own tables are touched",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			broken := applied{spec: projection.Spec{Name: "bad", Version: 1, Tables: tt.tables}, apply: tt.apply}
			caught(t, pool, broken, tt.caughtBy)
			broken.spec.Scope = projection.ScopeJournal
			broken.spec.Key = func(e event.Event) (string, error) { return e.CampaignID, nil }
			caught(t, pool, broken, tt.across)
		})
	}
}

// caught checks that a rule catches a broken applied.
func caught(t *testing.T, pool *pgxpool.Pool, broken applied, by string) {
	t.Helper()
	preparation := prepared(t, pool, broken, events())
	if preparation.err != nil {
		t.Fatal(preparation.err)
	}
	err := find(t, preparation.kit, by).check(t.Context(), preparation.kit)
	if err == nil || !strings.Contains(err.Error(), "the tables differ") {
		t.Errorf("%s: the rule %q says %v", broken.spec.Scope, by, err)
	}
}

func TestAProjectionThatFailsIsReportedWithItsEvent(t *testing.T) {
	t.Parallel()
	failing := applied{
		spec: projection.Spec{Name: "bad", Version: 1, Tables: `CREATE TABLE bad (campaign_id text)`},
		apply: func(_ context.Context, g *projection.Group) error {
			for _, e := range g.Events {
				if e.CampaignID == "b" && e.Seq == 3 {
					return errors.New("no idea")
				}
			}
			return nil
		},
	}
	pool := pgtest.New(t)
	err := prepared(t, pool, failing, events()).err
	if err == nil || !strings.Contains(err.Error(), `event 3 (moved) of campaign "b" cannot be applied: no idea`) {
		t.Errorf("got %v", err)
	}
	failing.spec.Scope = projection.ScopeJournal
	failing.spec.Key = func(e event.Event) (string, error) { return "key of " + e.CampaignID, nil }
	err = prepared(t, pool, failing, events()).err
	if err == nil || !strings.Contains(err.Error(), `(moved) cannot be applied for key "key of b": no idea`) {
		t.Errorf("across campaigns: got %v", err)
	}
}

func TestEventsThatProveNothingAreRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	nothing := applied{
		spec:  projection.Spec{Name: "idle", Version: 1, Tables: `CREATE TABLE idle (campaign_id text)`},
		apply: func(context.Context, *projection.Group) error { return nil },
	}
	if err := prepared(t, pool, nothing, events()).err; err == nil ||
		!strings.Contains(err.Error(), "leave all tables of idle empty") {
		t.Errorf("tables that stay empty: got %v", err)
	}
	if err := prepared(t, pool, nothing, events()[:1]).err; err == nil ||
		!strings.Contains(err.Error(), "are of 1 campaigns") {
		t.Errorf("one campaign: got %v", err)
	}
}

func TestDifferencesShowTheRows(t *testing.T) {
	t.Parallel()
	a := snapshot{"table t", `t {"n": 1}`, `t {"n": 2}`, `t {"n": 2}`, "table u"}
	b := snapshot{"table t", `t {"n": 2}`, `t {"n": 3}`, "table v"}
	const want = `the tables differ (- one, + two)
  - t {"n": 1}
  - t {"n": 2}
  - table u
  + t {"n": 3}
  + table v`
	if err := differences("one", a, "two", b); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if err := differences("one", a, "two", a); err != nil {
		t.Errorf("equal tables differ: %v", err)
	}
}

type applied struct {
	spec  projection.Spec
	apply func(context.Context, *projection.Group) error
}

func (p applied) Spec() projection.Spec                                { return p.spec }
func (p applied) Apply(ctx context.Context, g *projection.Group) error { return p.apply(ctx, g) }

// remembering counts the events of a campaign outside the database.
func remembering() func(context.Context, *projection.Group) error {
	var mu sync.Mutex
	totals := map[string]int{}
	return func(_ context.Context, g *projection.Group) error {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range g.Events {
			totals[e.CampaignID]++
			g.Queue(`INSERT INTO bad VALUES ($1, $2)`, e.CampaignID, totals[e.CampaignID])
		}
		return nil
	}
}

func events() []event.Event {
	var events []event.Event
	for i := range 12 {
		events = append(events, event.Event{CampaignID: []string{"a", "b"}[i%2], Type: "moved"})
	}
	return events
}

type preparation struct {
	kit *kit
	err error
}

func prepared(t *testing.T, pool *pgxpool.Pool, p projection.Projection, events []event.Event) preparation {
	t.Helper()
	k := &kit{admin: pool, projection: p}
	t.Cleanup(func() {
		if err := k.close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return preparation{k, k.prepare(t.Context(), events)}
}

func find(t *testing.T, k *kit, name string) rule {
	t.Helper()
	for _, r := range k.rules() {
		if r.name == name {
			return r
		}
	}
	t.Fatalf("there is no rule %q", name)
	return rule{}
}

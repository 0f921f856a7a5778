package status

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// sales are projections of each kind. Those called sold take one type, which had another name before.
// A return of "bad" goods fails.
func sales(t *testing.T, pool *pgxpool.Pool) *projector.Projector {
	t.Helper()
	types, err := catalogue.New(catalogue.EventType{Name: "sold", Aliases: []string{"traded"}})
	if err != nil {
		t.Fatal(err)
	}
	fold := func(n *int, e event.Event) error {
		if *n++; slices.Contains(e.Tags, "bad") {
			return errors.New("bad goods")
		}
		return nil
	}
	key := func(e event.Event) (string, error) { return e.CampaignID, nil }
	all := &projection.Handlers{
		Name: "returned", Version: 1,
		On: []projection.Handler{
			projection.Handle(event.Type[struct{}]("returned"), func(_ context.Context, _ *projection.Group, e event.Event,
				_ struct{},
			) error {
				return fold(new(int), e)
			}),
		},
	}
	p, err := projector.New(projector.Config{
		Pool: pool, Catalogue: types, Projections: []projection.Projection{
			projection.Document[int]{Name: "sold", Version: 1, Types: []string{"sold"}, Fold: fold},
			projection.Document[int]{Name: "everything", Version: 1, Fold: fold},
			all,
			projection.Document[int]{
				Name: "sold_across", Version: 1, Types: []string{"sold"}, Scope: projection.ScopeJournal, Key: key, Partitions: 2, Fold: fold,
			},
			projection.Process[int]{
				Name: "refund", Version: 1, Types: []string{"returned"}, Key: key, Fold: fold,
				React: []projection.Reaction[int]{
					projection.React("returned", func(*int, event.Event, struct{}) ([]projection.Do, error) { return nil, nil }),
				},
			},
		},
	})
	if err == nil {
		err = p.Register(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// taken are the events of each projection as plain SQL.
var taken = map[string]string{ //nolint:gochecknoglobals // a constant
	"":            `j.intent = 'projection_and_replay'`,
	"sold":        `j.intent = 'projection_and_replay' AND j.event_type IN ('sold', 'traded')`,
	"everything":  `j.intent = 'projection_and_replay'`,
	"returned":    `j.intent = 'projection_and_replay' AND j.event_type = 'returned'`,
	"sold_across": `j.intent = 'projection_and_replay' AND j.event_type IN ('sold', 'traded')`,
	"refund":      `j.intent = 'projection_and_replay' AND j.event_type = 'returned'`,
}

// TestLagIsWhatACountOfTheJournalSays holds the lag of each kind of projection against plain counts: behind,
// at the head, and with failed campaigns and keys.
func TestLagIsWhatACountOfTheJournalSays(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p := sales(t, pool)
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	const load = `SELECT tidemark.append('shop' || c, '[{"type": "sold"}, {"type": "returned"}, {"type": "noted"},
		{"type": "traded"}, {"type": "sold", "intent": "audit_only"}]') FROM generate_series(1, 5) c;
		SELECT tidemark.append('depot', '[{"type": "noted"}, {"type": "noted"}]')`
	check := func(when, across, campaign string) {
		t.Helper()
		s, err := (&Reader{Pool: pool}).Read(t.Context(), SectionLag)
		if err != nil || s.Unread != nil {
			t.Fatal(err, s.Unread)
		}
		if len(s.Lag) != len(taken) {
			t.Errorf("%s: lags of %+v", when, s.Lag)
		}
		for _, l := range s.Lag {
			from, isAcross := campaign, l.Projection == "sold_across" || l.Projection == "refund"
			if isAcross {
				from = across
			}
			var events, campaigns int64
			if err := pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT j.campaign_id) FROM tidemark.journal j
				WHERE `+taken[l.Projection]+` AND $1::text IS NOT NULL AND (`+from+`)`, l.Projection).Scan(&events, &campaigns); err != nil {
				t.Fatal(err)
			}
			if l.Events != events || (l.Age > 0) != (events > 0) || !isAcross && l.Campaigns != campaigns {
				t.Errorf("%s: the lag of %q is %+v, want %d events of %d campaigns", when, l.Projection, l, events, campaigns)
			}
		}
		for _, place := range s.Places {
			var events int64
			if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM tidemark.journal j WHERE `+taken[place.Projection]+`
				AND j.position > $1`, place.Position).Scan(&events); err != nil {
				t.Fatal(err)
			}
			if place.Behind != events || place.Estimated {
				t.Errorf("%s: the place %+v is not %d events behind", when, place, events)
			}
		}
	}
	const nothing, everything = "$1 IS NULL", "$1 IS NOT NULL"
	check("nothing is appended", nothing, nothing)
	exec(load)
	check("no worker has begun", everything, everything)
	if _, err := p.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("all is applied", nothing, nothing)
	exec(`SELECT tidemark.append('shop2', '[{"type": "noted"}, {"type": "noted"}]')`)
	check("what most do not take", `$1 = 'everything' AND j.campaign_id = 'shop2' AND j.seq > 5`,
		`($1 = 'everything' OR $1 = '') AND j.campaign_id = 'shop2' AND j.seq > 5`)
	exec(`SELECT tidemark.append('shop3', '[{"type": "sold", "tags": ["bad"]}, {"type": "returned"}, {"type": "sold"}]')`)
	_, _ = p.Drain(t.Context())
	check("a campaign and a key have failed", `$1 = 'sold_across' AND j.campaign_id = 'shop3' AND j.seq > 5`,
		`$1 IN ('sold', 'everything') AND j.campaign_id = 'shop3' AND j.seq > 5`)
	exec(load)
	const failed = `j.campaign_id = 'shop3' AND j.seq > 5 AND $1 IN ('sold', 'everything') OR j.seq >
		(SELECT l.checkpoint FROM tidemark.leases l WHERE l.campaign_id = j.campaign_id AND l.consumer_group = 'default')`
	check("behind, and failed", `j.position > (SELECT max(r.position) FROM tidemark.readers r WHERE r.topic = $1)
		OR $1 = 'sold_across' AND j.position >= (SELECT min(d.next_seq) FROM tidemark.failed d WHERE d.projection = $1)`, failed)
}

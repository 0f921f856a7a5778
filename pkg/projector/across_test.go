package projector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// scored is an event of a game about one of its players.
type scored struct {
	Player string `json:"player"`
	Points int    `json:"points"`
}

// standing depends on the order of all events of a player.
type standing struct {
	Games int    `json:"games"`
	Total int    `json:"total"`
	Order string `json:"order"`
}

func (s *standing) add(e event.Event, points int) {
	s.Games++
	s.Total += points
	s.Order = (fmt.Sprint(e.CampaignID, points, ";") + s.Order)[:min(60, len(s.Order)+len(fmt.Sprint(e.CampaignID, points, ";")))]
}

// scores is a pair of projections across campaigns: a document and handlers, which may refuse points.
type scores struct {
	partitions int
	refuses    atomic.Int64 // points that both refuse
}

var errRefused = errors.New("refused")

func (s *scores) projections() []projection.Projection {
	key := func(e event.Event) (string, error) {
		p, err := event.Decode[scored](e)
		return p.Player, err
	}
	board := projection.Document[standing]{
		Name: "board", Version: 1, Types: []string{"scored"}, Scope: projection.ScopeJournal, Key: key,
		Partitions: s.partitions,
		Fold: func(doc *standing, e event.Event) error {
			p, err := event.Decode[scored](e)
			doc.add(e, p.Points)
			if refuses := int(s.refuses.Load()); refuses != 0 && p.Points == refuses {
				return errRefused
			}
			return err
		},
	}
	list := &projection.Handlers{
		Name: "list", Version: 1, Scope: projection.ScopeJournal, Key: key, Partitions: s.partitions,
		Tables: `CREATE TABLE list (player text PRIMARY KEY, games int NOT NULL, total int NOT NULL, orders text NOT NULL)`,
		On: []projection.Handler{
			projection.Handle("scored", func(_ context.Context, g *projection.Group, e event.Event, p scored) error {
				if refuses := int(s.refuses.Load()); refuses != 0 && p.Points == refuses {
					g.Queue(`SELECT FROM nowhere`)
					return nil
				}
				g.Queue(`INSERT INTO list AS l VALUES ($1, 1, $2, left($3, 60)) ON CONFLICT (player) DO UPDATE
			SET games = l.games + 1, total = l.total + $2, orders = left($3 || l.orders, 60)`,
					p.Player, p.Points, fmt.Sprint(e.CampaignID, p.Points, ";"))
				return nil
			}),
		},
	}
	return []projection.Projection{board, list}
}

func score(t *testing.T, pool *pgxpool.Pool, campaign string, events ...scored) {
	t.Helper()
	all := make([]event.Event, len(events))
	for i, s := range events {
		payload, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = event.Event{Type: "scored", Payload: payload}
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any, all...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// foldedScores folds the journal in the order of position. held are keys that stand still from a position on.
func foldedScores(t *testing.T, pool *pgxpool.Pool, held map[string]int64) map[string]standing {
	t.Helper()
	all := map[string]standing{}
	for e, err := range journal.ReadAll(t.Context(), pool, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type != "scored" {
			continue
		}
		p, err := event.Decode[scored](e)
		if err != nil {
			t.Fatal(err)
		}
		if at := held[p.Player]; at > 0 && e.Position >= at {
			continue
		}
		s := all[p.Player]
		s.add(e, p.Points)
		all[p.Player] = s
	}
	return all
}

func expectScores(t *testing.T, pool *pgxpool.Pool, held map[string]int64) {
	t.Helper()
	want := foldedScores(t, pool, held)
	for name, sql := range map[string]string{
		"board": `SELECT key, doc ->> 'games', doc ->> 'total', doc ->> 'order' FROM tidemark_views.board`,
		"list":  `SELECT player, games::text, total::text, orders FROM tidemark_views.list`,
	} {
		got := map[string]standing{}
		rows, err := pool.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		var key, games, total, order string
		if _, err := pgx.ForEachRow(rows, []any{&key, &games, &total, &order}, func() error {
			var s standing
			_, err := fmt.Sscan(games+" "+total, &s.Games, &s.Total)
			s.Order = order
			got[key] = s
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, want) {
			for _, key := range slices.Sorted(maps.Keys(want)) {
				if got[key] != want[key] {
					t.Errorf("%s of %s: %+v, want %+v", name, key, got[key], want[key])
				}
			}
			for key := range got {
				if _, there := want[key]; !there {
					t.Errorf("%s has %s, which the journal does not have", name, key)
				}
			}
		}
	}
}

func TestAProjectionAcrossCampaignsFoldsTheJournalByPosition(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 3} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			s := &scores{partitions: partitions}
			random := rand.New(rand.NewPCG(1, uint64(partitions)))
			p := workerOf(t, pool, func(cfg *projector.Config) { cfg.GroupEvents = 7 }, s.projections()...)
			for range 3 {
				for range 40 {
					events := make([]scored, 1+random.IntN(4))
					for i := range events {
						events[i] = scored{fmt.Sprint("p", random.IntN(9)), 1 + random.IntN(9)}
					}
					score(t, pool, fmt.Sprint("game", random.IntN(12)), events...)
				}
				appendMoves(t, pool, "other", 1) // which neither of them wants
				drain(t, p)
				expectScores(t, pool, nil)
			}
			expectText(t, pool, "places", "true", `SELECT bool_and(r.position = j.last_value AND r.applied = (SELECT count(*)
				FROM tidemark.journal) AND r.applied_hash = (SELECT bit_xor(uuid_hash_extended(event_id, 0))
				FROM tidemark.journal) AND r.expires_at = '-infinity')::text
				FROM tidemark.readers r CROSS JOIN tidemark.journal_position j WHERE r.kind = 'projection'`)
			if n := query[int](t, pool, `SELECT count(*) FROM tidemark.relays`); n != 0 {
				t.Errorf("%d processes are left in tidemark.relays", n)
			}
		})
	}
}

func TestAnEventThatFailsHoldsBackItsKeyAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	s := &scores{}
	s.refuses.Store(-1)
	p := workerOf(t, pool, nil, s.projections()...)
	for i := range 30 {
		score(t, pool, fmt.Sprint("game", i%4), scored{"ann", i}, scored{"bob", i}, scored{fmt.Sprint("p", i), 1})
	}
	score(t, pool, "game9", scored{"bob", -1})
	at := query[int64](t, pool, `SELECT max(position) FROM tidemark.journal`)
	for i := range 30 {
		score(t, pool, fmt.Sprint("game", i%4), scored{"ann", i}, scored{"bob", i})
	}
	drain(t, p)
	expectScores(t, pool, map[string]int64{"bob": at})
	expectPairs(t, pool, fmt.Sprintf("bob board %d failed 1 transient error, bob list %[1]d failed 1 transient 42P01", at))
	retry(t, pool, p)
	expectScores(t, pool, map[string]int64{"bob": at})
	score(t, pool, "game9", scored{"bob", 5}, scored{"ann", 5})
	s.refuses.Store(0)
	drain(t, p)
	expectScores(t, pool, map[string]int64{"bob": at})
	retry(t, pool, p)
	expectScores(t, pool, nil)
	expectPairs(t, pool, "")
}

func TestWithoutAKeyAFailureHoldsBackTheProjection(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	refuses := true
	list := &projection.Handlers{
		Name: "totals", Version: 1, Scope: projection.ScopeJournal,
		Tables: `CREATE TABLE totals (one boolean PRIMARY KEY, n int NOT NULL, late text NOT NULL)`,
		On: []projection.Handler{
			projection.Handle("scored", func(_ context.Context, g *projection.Group, _ event.Event, p scored) error {
				if p.Points < 0 && refuses {
					return errRefused
				}
				g.Queue(`INSERT INTO totals AS t VALUES (true, 1, $1) ON CONFLICT (one) DO UPDATE SET n = t.n + 1, late = t.late || $1`,
					fmt.Sprint(p.Points, " "))
				return nil
			}),
		},
	}
	p := workerOf(t, pool, nil, list)
	score(t, pool, "a", scored{"x", 1}, scored{"x", 2})
	score(t, pool, "b", scored{"x", -3}, scored{"y", 4})
	score(t, pool, "a", scored{"x", 5})
	drain(t, p)
	const now = `SELECT concat_ws(' ', n, late) FROM tidemark_views.totals`
	expectText(t, pool, "before the failure", "2 1 2 ", now)
	expectText(t, pool, "place", "2", `SELECT position::text FROM tidemark.readers`)
	expectPairs(t, pool, "- totals 3 failed 1 transient error")
	retry(t, pool, p)
	expectPairs(t, pool, "- totals 3 failed 2 transient error")
	refuses = false
	retry(t, pool, p)
	expectText(t, pool, "all", "5 1 2 -3 4 5 ", now)
	expectPairs(t, pool, "")
	expectText(t, pool, "proof", "t", `SELECT (r.applied = 5 AND r.applied_hash = (SELECT bit_xor(uuid_hash_extended(event_id, 0))
		FROM tidemark.journal))::text::char FROM tidemark.readers r`)
}

func TestAPartitionHasOneHolder(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	s := &scores{partitions: 4}
	var stops []context.CancelFunc
	done := make(chan error, 3)
	for range 3 {
		p := workerOf(t, pool, func(cfg *projector.Config) {
			cfg.PollInterval, cfg.LeaseTTL = 100*time.Millisecond, time.Second
		}, s.projections()...)
		ctx, stop := context.WithCancel(t.Context())
		stops = append(stops, stop)
		go func() { done <- p.Run(ctx) }()
	}
	holders := func(want int) {
		t.Helper()
		const sql = `SELECT string_agg(held::text, ' ' ORDER BY held) FROM (SELECT count(*) AS held FROM tidemark.readers
			WHERE expires_at > clock_timestamp() GROUP BY owner) o`
		wanted := map[int]string{3: "2 3 3", 2: "4 4", 1: "8"}[want]
		for deadline := time.Now().Add(time.Minute); ; {
			got := query[*string](t, pool, sql)
			if got != nil && *got == wanted {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("places are shared out as %v, want %s", got, wanted)
			}
			for i := range 20 {
				score(t, pool, fmt.Sprint("game", i), scored{fmt.Sprint("p", i), i + 1})
			}
		}
	}
	for n := 3; n > 0; n-- {
		holders(n)
		stops[n-1]()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	drain(t, workerOf(t, pool, nil, s.projections()...))
	expectScores(t, pool, nil)
	if strings.Contains(query[string](t, pool, `SELECT coalesce(string_agg(act, ' '), '') FROM tidemark.failure_log`), "f") {
		t.Error("events have failed")
	}
}

func TestAGroupHasNoWorkItemsBeforeAProjectionByCampaign(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	all := (&scores{}).projections()
	p := workerOf(t, pool, nil, all...)
	drain(t, p)
	score(t, pool, "a", scored{"ada", 1}, scored{"bob", 2})
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.outbox WHERE consumer_group = 'default'`); n != 0 {
		t.Errorf("%d work items that no projection needs", n)
	}
	t.Run("and no gaps", func(t *testing.T) { // the worker ends with it
		registry := prometheus.NewRegistry()
		polling(t, pool, func(c *projector.Config) { c.Registerer = registry }, all...)
		within(t, "all is applied", func() bool { return query[int](t, pool, `SELECT count(*) FROM board`) == 2 })
		if n := metric(t, registry, "tidemark_gaps_total"); n != 0 {
			t.Errorf("%v campaigns are taken for gaps", n)
		}
	})
	expectText(t, pool, "board", "ada bob", `SELECT string_agg(key, ' ' ORDER BY key) FROM board`)
	expectText(t, pool, "group", "across", `SELECT state FROM tidemark.consumer_groups`)
	group := pause.Target{Group: "default"}
	if err := errors.Join(setPause(t.Context(), pool, group, 0), endPause(t.Context(), pool, group)); err != nil {
		t.Errorf("it cannot be paused: %v", err)
	}
	counts := &projection.Handlers{
		Name: "counts", Version: 1, Tables: "CREATE TABLE counts (campaign_id text PRIMARY KEY, n int)",
	}
	drain(t, workerOf(t, pool, nil, append(all, counts)...))
	score(t, pool, "b", scored{"ada", 1})
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.outbox WHERE consumer_group = 'default'`); n != 1 {
		t.Errorf("%d work items for a new append", n)
	}
	expectText(t, pool, "checkpoint", "2", `SELECT checkpoint::text FROM tidemark.leases WHERE campaign_id = 'a'`)
}

func TestATableOfSeveralCampaignsNeedsAScope(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tables  string
		refused bool
	}{
		"no_campaign":        {"CREATE TABLE x (player text PRIMARY KEY)", true},
		"campaign_in_no_key": {"CREATE TABLE x (player text PRIMARY KEY, campaign_id text)", true},
		"second_table":       {"CREATE TABLE a (campaign_id text PRIMARY KEY); CREATE TABLE x (day date UNIQUE)", true},
		"campaign_in_a_key":  {"CREATE TABLE x (player text, campaign_id text, PRIMARY KEY (campaign_id, player))", false},
		"one_of_two_keys":    {"CREATE TABLE x (id serial PRIMARY KEY, campaign_id text UNIQUE)", false},
		"no_key":             {"CREATE TABLE x (campaign_id text, n int)", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			of := projection.Handlers{Name: "x", Version: 1, Tables: tt.tables}
			_, err := workerOf(t, pool, nil, of).Drain(t.Context())
			if refused := err != nil; refused != tt.refused {
				t.Fatalf("%v", err)
			}
			if tt.refused {
				for _, remedy := range []string{"table x", "put campaign_id into the table's keys", "the scope journal"} {
					if !strings.Contains(err.Error(), remedy) {
						t.Errorf("%v: it does not say %q", err, remedy)
					}
				}
			}
			of.Scope = projection.ScopeJournal
			pool = pgtest.New(t)
			drain(t, workerOf(t, pool, nil, of))
		})
	}
}

package projector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	tables "github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/bulk"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// boards are versions of a projection across campaigns, a document a player. Version 2 has other
// partitions. refuses are points that they all refuse.
type boards struct{ refuses atomic.Int64 }

func (b *boards) version(name string, version int) projection.Projection {
	return projection.Document[standing]{
		Name: name, Version: version, Types: []string{"scored"}, Scope: projection.ScopeJournal, Partitions: 1 + version%3,
		OnFailure: projection.Policy{Action: projection.ActionDead},
		Key: func(e event.Event) (string, error) {
			p, err := event.Decode[scored](e)
			return p.Player, err
		},
		Fold: func(doc *standing, e event.Event) error {
			p, err := event.Decode[scored](e)
			if r := int(b.refuses.Load()); r != 0 && p.Points == r {
				return errRefused
			}
			doc.add(e, p.Points*version)
			return err
		},
	}
}

func (b *boards) worker(t *testing.T, pool *pgxpool.Pool, names []string, versions ...int) *projector.Projector {
	t.Helper()
	var all []projection.Projection
	for _, name := range names {
		for _, version := range versions {
			all = append(all, b.version(name, version))
		}
	}
	return workerOf(t, pool, func(c *projector.Config) { c.ManualRebuilds = true }, all...)
}

// expectBoards compares each registered set of tables with what its version makes of the journal in
// the order of position, without the events that are resolved and those that are held back.
func expectBoards(t *testing.T, pool *pgxpool.Pool, sets int) {
	t.Helper()
	type set struct {
		Name    string
		Version int
	}
	rows, err := pool.Query(t.Context(), `SELECT name, version FROM tidemark.projections WHERE state = 'active' ORDER BY name`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[set])
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != sets {
		t.Errorf("sets of tables: %v, want %d", all, sets)
	}
	for _, s := range all {
		name, which := tables.Split(s.Name)
		held := pairsOf[int64](t, pool, `SELECT campaign_id, next_seq FROM tidemark.failed WHERE projection = $1`, s.Name)
		resolved := pairsOf[int64](t, pool, `SELECT seq::text, seq FROM tidemark.resolutions WHERE projection = $1`, name)
		want := map[string]standing{}
		for e, err := range journal.ReadAll(t.Context(), pool, 0) {
			if err != nil {
				t.Fatal(err)
			}
			p, err := event.Decode[scored](e)
			if err != nil {
				t.Fatal(err)
			}
			if at := held[p.Player]; at > 0 && e.Position >= at || resolved[fmt.Sprint(e.Position)] > 0 {
				continue
			}
			doc := want[p.Player]
			doc.add(e, p.Points*s.Version)
			want[p.Player] = doc
		}
		got := map[string]standing{}
		for key, doc := range pairsOf[[]byte](t, pool, fmt.Sprintf(`SELECT key, doc FROM %s`,
			pgx.Identifier{which.Schema(name, "tidemark_views"), name}.Sanitize())) {
			var one standing
			if err := json.Unmarshal(doc, &one); err != nil {
				t.Fatal(err)
			}
			got[key] = one
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s of version %d: %v\nwant %v", s.Name, s.Version, got, want)
		}
	}
	expectText(t, pool, "places that do not prove what was applied", "", `SELECT string_agg(concat_ws(' ', r.topic, r.publisher,
			r.position, r.applied, j.n), ', ') FROM tidemark.readers r CROSS JOIN LATERAL (SELECT count(*) AS n,
			coalesce(bit_xor(uuid_hash_extended(event_id, 0)), 0) AS hash FROM tidemark.journal WHERE position <= r.position) j
		WHERE r.applied <> j.n OR r.applied_hash <> j.hash`)
	expectText(t, pool, "readers without tables", "", `SELECT string_agg(r.topic, ' ') FROM tidemark.readers r
		WHERE NOT EXISTS (SELECT FROM tidemark.projections p WHERE p.name = r.topic)`)
}

func pairsOf[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) map[string]T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]T{}
	var key string
	var value T
	if _, err := pgx.ForEachRow(rows, []any{&key, &value}, func() error {
		all[key] = value
		value = *new(T)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// boardCell is a group of boards in a state of a rebuild.
type boardCell struct {
	*testing.T
	boards
	pool  *pgxpool.Pool
	names []string
	one   *projector.Projector // has version 1
	all   *projector.Projector // has all versions
}

func (c *boardCell) play() {
	c.Helper()
	for i := range 6 {
		score(c.T, c.pool, fmt.Sprint("game", i%2), scored{fmt.Sprint("p", i%4), i + 1}, scored{"ann", i})
	}
}

func (c *boardCell) start(version int) {
	c.Helper()
	none := 0
	for _, name := range c.names {
		if _, err := rebuild.StartRebuild(c.Context(), c.pool, name, rebuild.Options{Version: &version, Verify: &none}, ada); err != nil {
			c.Fatal(err)
		}
	}
}

// begin makes the next tables, and applies nothing to them.
func (c *boardCell) begin() {
	c.Helper()
	c.start(2)
	if err := c.worker(c.T, c.pool, c.names, 1, 2).Register(c.Context()); err != nil {
		c.Fatal(err)
	}
}

// TestAnyActDuringARebuildAcrossCampaignsEndsWithTheFold runs every act in every
// state. In the end each set of tables holds what its version makes of the journal, or the act was
// refused with its error.
func TestAnyActDuringARebuildAcrossCampaignsEndsWithTheFold(t *testing.T) {
	t.Parallel()
	withdrawn := func(c *boardCell, s tables.TableSet) {
		for _, name := range c.names {
			exec(c.T, c.pool, rebuild.QueryWithdraw, s.Of(name), rebuild.Withdrawn)
		}
	}
	swapped := func(c *boardCell) {
		c.start(2)
		drain(c.T, c.all)
	}
	states := map[string]func(c *boardCell){
		"requested":   func(c *boardCell) { c.start(2) },
		"catching_up": (*boardCell).begin,
		"ready": func(c *boardCell) {
			c.begin()
			exec(c.T, c.pool, `UPDATE tidemark.rebuilds SET refused_at = now() + interval '1 hour'`)
			drain(c.T, c.all)
		},
		"previous":           swapped,
		"next_withdrawn":     func(c *boardCell) { c.begin(); withdrawn(c, tables.NextTables) },
		"previous_withdrawn": func(c *boardCell) { swapped(c); withdrawn(c, tables.PreviousTables) },
		"rolled_back": func(c *boardCell) {
			swapped(c)
			for _, name := range c.names {
				if err := rebuild.Rollback(c.Context(), c.pool, name, rebuild.RollbackOptions{}, ada); err != nil {
					c.Fatal(err)
				}
			}
		},
	}
	const rebuilding, notBuilt = "requested catching_up ready", "previous previous_withdrawn rolled_back"
	start := func(version int) func(c *boardCell, name string) error {
		return func(c *boardCell, name string) error {
			_, err := rebuild.StartRebuild(c.Context(), c.pool, name, rebuild.Options{Version: &version}, ada)
			return err
		}
	}
	acts := []struct {
		name    string
		do      func(c *boardCell, name string) error
		refused map[string]string // states and the text of the error
	}{
		{name: "nothing", do: func(*boardCell, string) error { return nil }},
		{name: "swap", do: start(2)},
		{name: "rollback", do: func(c *boardCell, name string) error {
			return rebuild.Rollback(c.Context(), c.pool, name, rebuild.RollbackOptions{AllowBehind: -1}, ada)
		}, refused: map[string]string{
			rebuilding + " next_withdrawn": rebuild.ErrRebuilding.Error(), "previous_withdrawn": rebuild.ErrNoPrevious.Error(),
		}},
		{name: "abort", do: func(c *boardCell, name string) error {
			return abort(c.Context(), c.pool, name, ada)
		}, refused: map[string]string{notBuilt: rebuild.ErrNoRebuild.Error()}},
		{name: "a third version", do: start(3), refused: map[string]string{
			rebuilding: "version 2 is being built: abort that first",
		}},
		{name: "remove", do: func(c *boardCell, name string) error {
			return rebuild.Remove(c.Context(), c.pool, name, true, ada)
		}},
		{name: "pause next", do: func(c *boardCell, name string) error {
			exec(c.T, c.pool, `INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
				VALUES ('projection', 'default', $1, '', 'ada')`, tables.NextTables.Of(name))
			return nil
		}},
		{name: "pause", do: func(c *boardCell, name string) error {
			exec(c.T, c.pool, `INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
				VALUES ('projection', 'default', $1, '', 'ada')`, name)
			return nil
		}},
	}
	for name, reach := range states {
		for _, mend := range []string{"succeeds", "resolved"} {
			t.Run(name+"/"+mend, func(t *testing.T) {
				t.Parallel()
				c := &boardCell{T: t, pool: pgtest.New(t)}
				for i := range acts {
					c.names = append(c.names, fmt.Sprint("board", i))
				}
				c.one, c.all = c.worker(t, c.pool, c.names, 1), c.worker(t, c.pool, c.names, 1, 2, 3)
				c.play()
				drain(t, c.one)
				reach(c)
				for i, act := range acts {
					want := ""
					for in, says := range act.refused {
						if strings.Contains(" "+in+" ", " "+name+" ") {
							want = says
						}
					}
					if err := act.do(c, c.names[i]); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %v, want %q", act.name, err, want)
					}
				}
				c.refuses.Store(-1)
				score(t, c.pool, "game0", scored{"bob", 1}, scored{"bob", -1}, scored{"bob", 2})
				c.play()
				drain(t, c.worker(t, c.pool, c.names, 1, 2, 3))
				expectText(t, c.pool, "held back", "bob", `SELECT string_agg(DISTINCT campaign_id, ' ') FROM tidemark.failed`)
				exec(t, c.pool, `DELETE FROM tidemark.pauses`)
				do := bulk.Resolve
				if mend == "succeeds" {
					c.refuses.Store(0)
					do = bulk.Requeue
				}
				for i := 0; i < 6 && (i < 2 || query[bool](t, c.pool, `SELECT EXISTS (SELECT FROM tidemark.failed)
						OR EXISTS (SELECT FROM tidemark.rebuilds)`)); i++ {
					if err := pgx.BeginFunc(t.Context(), c.pool, func(tx pgx.Tx) error {
						_, err := do(t.Context(), tx, failed.Filter{Group: "default"}, ada)
						return err
					}); err != nil {
						t.Fatal(err)
					}
					exec(t, c.pool, `UPDATE tidemark.rebuilds SET refused_at = NULL`)
					if mend == "succeeds" {
						exec(t, c.pool, `UPDATE tidemark.failed SET status = 'failed', attempt_count = 0, next_attempt_at = now()
							WHERE projection LIKE '%~previous' AND status = 'dead'`) // as after a rollback
					}
					drain(t, c.worker(t, c.pool, c.names, 1, 2, 3))
				}
				expectPairs(t, c.pool, "")
				expectText(t, c.pool, "rebuilds that do not end", "", `SELECT string_agg(projection || refusal, ' ') FROM tidemark.rebuilds`)
				expectBoards(t, c.pool, query[int](t, c.pool, `SELECT count(*) FROM tidemark.projections`))
			})
		}
	}
}

// TestReadersSeeNoOlderRowsDuringASwapAcrossCampaigns rebuilds and rolls back while
// events arrive all the time.
func TestReadersSeeNoOlderRowsDuringASwapAcrossCampaigns(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := &boards{}
	p := workerOf(t, pool, func(c *projector.Config) {
		c.PollInterval, c.LeaseTTL = 100*time.Millisecond, 2*time.Second
	}, b.version("board", 1))
	score(t, pool, "game", scored{"ann", 1})
	drain(t, p)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 4)
	for range 2 {
		p := workerOf(t, pool, func(c *projector.Config) {
			c.PollInterval, c.LeaseTTL = 100*time.Millisecond, 2*time.Second
		}, b.version("board", 1), b.version("board", 2))
		go func() { done <- p.Run(ctx) }()
	}
	appends, stopAppends := context.WithCancel(t.Context())
	go func() {
		for i := 0; appends.Err() == nil; i++ {
			score(t, pool, fmt.Sprint("game", i%5), scored{fmt.Sprint("p", i%7), 1})
		}
		done <- nil
	}()
	go func() {
		for last := 0; ctx.Err() == nil; {
			var now int
			if err := pool.QueryRow(context.WithoutCancel(ctx), `SELECT sum((doc ->> 'games')::int) FROM tidemark_views.board`).
				Scan(&now); err != nil {
				done <- err
				return
			}
			if now < last {
				done <- fmt.Errorf("%d events were visible, and then %d", last, now)
				return
			}
			last = now
		}
		done <- nil
	}()
	within(t, "version 2 is live", func() bool {
		return query[int](t, pool, `SELECT version FROM tidemark.projections WHERE name = 'board'`) == 2
	})
	within(t, "the replaced tables are held", func() bool {
		return query[bool](t, pool, `SELECT bool_and(expires_at > clock_timestamp()) FROM tidemark.readers
			WHERE topic = 'board~previous'`)
	})
	if _, err := rebuild.CheckRollback(t.Context(), pool, "board", rebuild.RollbackOptions{}); err != nil {
		t.Error(err)
	}
	if err := rebuild.Rollback(t.Context(), pool, "board", rebuild.RollbackOptions{}, ada); err != nil {
		t.Error(err)
	}
	stopAppends()
	within(t, "all is applied", func() bool {
		return query[bool](t, pool, `SELECT bool_and(r.position = j.last_value) FROM tidemark.readers r
			CROSS JOIN tidemark.journal_position j`)
	})
	stop()
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	expectBoards(t, pool, 2)
	expectText(t, pool, "versions", "board 1, board~previous 2", `SELECT string_agg(name || ' ' || version, ', ' ORDER BY name)
		FROM tidemark.projections`)
}

func TestNoRollbackAcrossCampaignsToTablesThatNoWorkerFollows(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := &boards{}
	score(t, pool, "game", scored{"ann", 1})
	drain(t, workerOf(t, pool, nil, b.version("board", 1)))
	two := workerOf(t, pool, nil, b.version("board", 2))
	drain(t, two)
	score(t, pool, "game", scored{"ann", 2}, scored{"bob", 2})
	if _, err := two.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := rebuild.Rollback(t.Context(), pool, "board", rebuild.RollbackOptions{}, ada)
	if err == nil || !strings.Contains(err.Error(), "the tables are behind by 2 events, allowed are 0: run a worker that has version 1") {
		t.Error(err)
	}
	drain(t, workerOf(t, pool, nil, b.version("board", 1)))
	if err := rebuild.Rollback(t.Context(), pool, "board", rebuild.RollbackOptions{}, ada); err != nil {
		t.Error(err)
	}
	expectBoards(t, pool, 2)
}

func TestAScopeAndPartitionsChangeOnlyWithTheNameOrTheVersion(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := &boards{}
	drain(t, workerOf(t, pool, nil, b.version("board", 1), tripled(1)))
	spec := func(name string, version, partitions int, scope projection.Scope) projection.Projection {
		s := &projection.Handlers{Name: name, Version: version, Scope: scope, Partitions: partitions, Tables: "CREATE TABLE " + name + " (n int)"}
		if partitions > 0 {
			s.Key = func(e event.Event) (string, error) { return e.CampaignID, nil }
		}
		return s
	}
	for want, p := range map[string]projection.Projection{
		"projection counters has the scope journal in version 2, and counters is registered with the scope campaign: give it " +
			"another name": spec("counters", 2, 1, projection.ScopeJournal),
		"projection board has the scope campaign in version 2, and board is registered with the scope journal: give it another " +
			"name": spec("board", 2, 0, ""),
		"version 1 of projection board has 5 partitions here, board is registered with 2: raise the version to rebuild it with " +
			"5, or go back to 2": spec("board", 1, 5, projection.ScopeJournal),
	} {
		if err := workerOf(t, pool, nil, p).Register(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	if err := workerOf(t, pool, nil, b.version("board", 2)).Register(t.Context()); err != nil {
		t.Error(err)
	}
}

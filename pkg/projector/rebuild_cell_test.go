package projector

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/bulk"
)

// cell is a consumer group with projections in versions 1 to 3. Cells share a database. Event 3 of
// campaign c0 fails while the cell is broken.
type cell struct {
	*testing.T
	pool   *pgxpool.Pool
	group  string
	names  []string
	list   bool // campaign_id is not text, so rows cannot be reset by campaign
	broken atomic.Bool
	one    *Projector      // has version 1
	all    *Projector      // has all versions and starts no rebuild itself
	again  map[string]bool // projections that may have applied events twice
}

// newCell returns a cell whose tables of version 1 are in step, except that c0 is dead in each
// projection.
func newCell(t *testing.T, pool *pgxpool.Pool, group string, list bool, projections int) *cell {
	t.Helper()
	c := &cell{T: t, pool: pool, group: group, list: list, again: map[string]bool{}}
	for i := range projections {
		c.names = append(c.names, fmt.Sprintf("%s_%d", group, i))
	}
	c.broken.Store(true)
	c.one, c.all = c.worker(1), c.worker(1, 2, 3)
	c.drain(c.one)
	return c
}

func (c *cell) worker(versions ...int) *Projector {
	c.Helper()
	cfg := Config{Pool: c.pool, ConsumerGroup: c.group, ManualRebuilds: true, NoListen: true, Concurrency: 1}
	for _, name := range c.names {
		for _, version := range versions {
			cfg.Projections = append(cfg.Projections, c.version(name, version))
		}
	}
	p, err := New(cfg)
	c.must(err)
	return p
}

// version returns a projection that keeps a row for each event and counts how often it was applied.
func (c *cell) version(name string, version int) projection.Projection {
	kind, id := `text COLLATE "C"`, "$1::text"
	if c.list {
		kind, id = "text[]", "ARRAY[$1::text]"
	}
	return projection.Handlers{
		Name: name, Version: version, OnFailure: projection.Policy{Action: projection.ActionDead}, Tables: fmt.Sprintf(
			`CREATE TABLE %s (campaign_id %s, seq bigint, made bigint, times integer, PRIMARY KEY (campaign_id, seq))`,
			name, kind),
		On: []projection.Handler{
			projection.Handle("noted", func(_ context.Context, g *projection.Group, e event.Event, _ struct{}) error {
				if e.CampaignID == "c0" && e.Seq == 3 && c.broken.Load() {
					return errors.New("broken")
				}
				g.Queue(fmt.Sprintf(`INSERT INTO %[1]s VALUES (%[2]s, $2, $3, 1) ON CONFLICT (campaign_id, seq) DO UPDATE
			SET times = %[1]s.times + 1`, name, id),
					e.CampaignID, e.Seq, e.Seq*int64(version))
				return nil
			}),
		},
	}
}

func (c *cell) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *cell) exec(sql string, args ...any) {
	c.Helper()
	if _, err := c.pool.Exec(c.Context(), sql, args...); err != nil {
		c.Fatalf("%s: %v", sql, err)
	}
}

func (c *cell) drain(p *Projector) {
	c.Helper()
	if _, err := p.Drain(c.Context()); err != nil {
		c.Fatal(err)
	}
}

func (c *cell) within(do func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(c.Context(), c.pool, do)
}

// startRebuild requests version 2 of all projections, swapped without verification: a lost row must
// show in the result.
func (c *cell) startRebuild() {
	c.Helper()
	version, none, allowed := 2, 0, int64(0)
	for _, name := range c.names {
		_, err := rebuild.StartRebuild(c.Context(), c.pool, name,
			rebuild.Options{Version: &version, Verify: &none, AllowFailed: &allowed}, operator())
		c.must(err)
	}
}

func (c *cell) resolve(string) error {
	return c.within(func(tx pgx.Tx) error {
		_, err := bulk.Resolve(c.Context(), tx, failed.Filter{Group: c.group}, operator())
		return err
	})
}

// retryReplaced retries at once what has failed in replaced tables. No act does: a rollback comes first.
const retryReplaced = `UPDATE tidemark.failed SET status = 'failed', attempt_count = 0, next_attempt_at = now()
	WHERE projection LIKE '%~previous' AND status = 'dead'`

func (c *cell) requeue(string) error {
	c.broken.Store(false)
	c.exec(retryReplaced+` AND consumer_group = $1`, c.group)
	return c.within(func(tx pgx.Tx) error {
		_, err := bulk.Requeue(c.Context(), tx, failed.Filter{Group: c.group}, operator())
		return err
	})
}

// settle ends pauses and refusals, appends to each campaign and calls mend for the failures. Then
// workers apply everything that is left.
func (c *cell) settle(mend func(string) error) {
	c.Helper()
	c.exec(`DELETE FROM tidemark.pauses WHERE consumer_group = $1`, c.group)
	for i := range 4 {
		noteIn(c.T, c.pool, fmt.Sprint("c", i), 1)
	}
	const left = `SELECT concat_ws(', ',
		(SELECT format('%s work items', count(*)) FROM tidemark.outbox WHERE consumer_group = $1 HAVING count(*) > 0),
		(SELECT string_agg(format('%s %s %s %s', projection, campaign_id, next_seq, status), ', ') FROM tidemark.failed
			WHERE consumer_group = $1),
		(SELECT string_agg(format('%s %s', name, state), ', ') FROM tidemark.projections WHERE consumer_group = $1
			AND (state <> 'active' OR name LIKE '%~next')))`
	var rest string
	for range 8 {
		c.exec(`UPDATE tidemark.rebuilds SET refused_at = NULL WHERE projection = ANY ($1)`, c.names)
		c.must(mend(""))
		c.drain(c.all)
		c.must(c.pool.QueryRow(c.Context(), left, c.group).Scan(&rest))
		if rest == "" {
			return
		}
	}
	c.Errorf("it does not settle: %s", rest)
}

// compare compares each set of tables with the rows that its version makes of the journal, without
// resolved events.
func (c *cell) compare(resolved bool) {
	c.Helper()
	rows, err := c.pool.Query(c.Context(), `SELECT name, version FROM tidemark.projections
		WHERE consumer_group = $1`, c.group)
	c.must(err)
	versions := map[string]int{}
	var set string
	var version int
	_, err = pgx.ForEachRow(rows, []any{&set, &version}, func() error {
		versions[set] = version
		return nil
	})
	c.must(err)
	for _, name := range c.names {
		if versions[name] == 0 {
			c.Errorf("%s is not registered", name)
		}
	}
	const differing = `SELECT coalesce(string_agg(format('%%s/%%s %%s times, made %%s',
			coalesce(j.campaign_id, r.id),
		coalesce(j.seq, r.seq), coalesce(r.times, 0), r.made), ', '
			ORDER BY coalesce(j.campaign_id, r.id), coalesce(j.seq, r.seq)), '')
		FROM (SELECT campaign_id, seq FROM tidemark.journal WHERE NOT ($3 AND campaign_id = 'c0' AND seq = 3)) j
		FULL JOIN (SELECT *, trim(campaign_id::text, '{}') AS id FROM %s) r ON r.id = j.campaign_id AND r.seq = j.seq
		WHERE r.made IS DISTINCT FROM j.seq * $1 OR r.times <> 1 AND NOT $2`
	for set, version := range versions {
		name, of := registry.Split(set)
		table := pgx.Identifier{of.Schema(name, "tidemark_views"), name}.Sanitize()
		var wrong string
		c.must(c.pool.QueryRow(c.Context(), fmt.Sprintf(differing, table), version, c.again[name],
			resolved).Scan(&wrong))
		if wrong != "" {
			c.Errorf("%s of version %d: %.200s", set, version, wrong)
		}
	}
}

func operator() failed.Act { return failed.Act{By: "ada", Reason: "the matrix"} }

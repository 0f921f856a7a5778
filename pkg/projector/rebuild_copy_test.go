package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// onceEach keeps a row for each event and fails if it applies an event twice.
func onceEach(version int) projection.Projection {
	return projection.Handlers{
		Name: "seen", Version: version, Tables: `CREATE TABLE seen (campaign_id text, seq bigint,
		PRIMARY KEY (campaign_id, seq))`,
		On: []projection.Handler{
			projection.Handle("noted", func(_ context.Context, g *projection.Group, e event.Event, _ struct{}) error {
				g.Queue(`INSERT INTO seen VALUES ($1, $2)`, e.CampaignID, e.Seq)
				return nil
			}),
		},
	}
}

func number(t *testing.T, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestWhatIsNotCopiedOrMovesMeanwhileCatchesUpOnItsOwn loses one range, as when its worker dies. It
// moves campaigns before, while and after they are copied.
func TestWhatIsNotCopiedOrMovesMeanwhileCatchesUpOnItsOwn(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker := func(version int) *Projector {
		p, err := New(Config{Pool: pool, Projections: []projection.Projection{onceEach(version)}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one, two := worker(1), worker(2)
	drain := func(p *Projector) {
		if _, err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 9 {
		noteIn(t, pool, fmt.Sprint("c", i), 3)
	}
	drain(one)
	if err := two.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	noteIn(t, pool, "c5", 1)
	drain(one) // c5 is not copied
	if _, err := pool.Exec(t.Context(), `UPDATE tidemark.rebuilds SET copied_to = 'c2'`); err != nil {
		t.Fatal(err)
	}
	noteIn(t, pool, "c8", 1) // not applied yet
	if err := two.rebuilder.CopyRanges(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := number(t, pool, `SELECT count(*) FROM tidemark_next_seen.seen`); n != 5*3 {
		t.Errorf("%d rows are copied, want those of c3, c4, c6, c7, c8", n)
	}
	noteIn(t, pool, "c6", 1)
	drain(one) // c6 starts over
	if n := number(t, pool, `SELECT count(*) FROM tidemark.projections WHERE state = 'copied'`); n != 1 {
		t.Error("the copying has not ended")
	}
	if err := two.rebuilder.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := number(t, pool, `SELECT count(*) FROM tidemark.failed WHERE projection = 'seen~next'`); n != 3+3 {
		t.Errorf("%d campaigns are filed, want c0, c1, c2, c5, c6, c8", n)
	}
	noteIn(t, pool, "c7", 1)
	drain(two)
	if n := number(t, pool, `SELECT count(*) FROM tidemark.projections WHERE name = 'seen' AND version = 2`); n != 1 {
		t.Error("it is not exchanged")
	}
	if n := number(t, pool, `SELECT count(*) FROM seen`); n != 9*3+4 {
		t.Errorf("%d rows, want a row for each event", n)
	}
	if n := number(t, pool, `SELECT (SELECT count(*) FROM tidemark.rebuild_ranges) + (SELECT count(*)
		FROM tidemark.failure_log WHERE act = 'failed')`); n > 0 {
		t.Error("ranges are left, or something has failed")
	}
}

// TestARangeIsNotCopiedTooLate lets a worker reach its range after the copy has ended. By then its
// campaigns may be behind.
func TestARangeIsNotCopiedTooLate(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var workers []*Projector
	for version := range 2 {
		p, err := New(Config{Pool: pool, Projections: []projection.Projection{onceEach(version + 1)}})
		if err != nil {
			t.Fatal(err)
		}
		workers = append(workers, p)
	}
	noteIn(t, pool, "a", 1)
	if _, err := workers[0].Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	two := workers[1]
	if err := two.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := two.rebuilder.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	k := two.base.Set("seen", registry.NextTables, 2)
	r, err := two.rebuilder.TakeRange(t.Context(), k)
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	if err := two.rebuilder.EndCopy(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if err := two.rebuilder.CopyRange(t.Context(), k, *r); !errors.Is(err, rebuild.ErrNotCopying) {
		t.Errorf("copied: %v", err)
	}
	if n := number(t, pool, `SELECT count(*) FROM tidemark_next_seen.seen`); n > 0 {
		t.Errorf("%d rows", n)
	}
}

// TestFoldedDocumentsAreThoseThatWereAppliedOneByOne rebuilds documents that appear, change and
// vanish. Pages end at random events, with and without a catalogue.
func TestFoldedDocumentsAreThoseThatWereAppliedOneByOne(t *testing.T) {
	t.Parallel()
	types, err := catalogue.New(catalogue.EventType{Name: "changed", Version: 1, Aliases: []string{"altered"}})
	if err != nil {
		t.Fatal(err)
	}
	type change struct{ Key, Op string }
	worker := func(pool *pgxpool.Pool, version int, types *catalogue.Catalogue, bytes int64) *Projector {
		p, err := New(Config{
			Pool: pool, Catalogue: types, GroupBytes: bytes,
			Projections: []projection.Projection{projection.Document[[]int64]{
				Name: "logs", Version: version, Types: []string{"changed"},
				Key: func(e event.Event) (string, error) {
					c, err := event.Decode[change](e)
					return c.Key, err
				},
				Fold: func(log *[]int64, e event.Event) error {
					if c, err := event.Decode[change](e); err != nil || c.Op == "delete" {
						return cmp.Or(err, event.Delete)
					}
					*log = append(*log, e.Seq)
					return nil
				},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, of := range []*catalogue.Catalogue{nil, types} {
		pool := pgtest.New(t)
		random := rand.New(rand.NewPCG(1, 2))
		for c := range 40 {
			var events []event.Event
			for range 1 + random.IntN(60) {
				e := event.Event{Type: []string{"changed", "changed", "altered", "other"}[random.IntN(4)], Version: 1}
				e.Payload = []byte(fmt.Sprintf(`{"Key": %q, "Op": %q}`, []string{"", "a", "b", "c", "d"}[random.IntN(5)],
					[]string{"add", "add", "delete"}[random.IntN(3)]))
				events = append(events, e)
			}
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := journal.Journal{}.Append(t.Context(), tx, fmt.Sprint("c", c), journal.Any, events...)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := worker(pool, 1, of, 1<<20).Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := worker(pool, 2, of, 700).Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := number(t, pool, `SELECT count(*) FROM (TABLE logs INTERSECT TABLE tidemark_previous_logs.logs)
			x`); n < 50 || n != number(t, pool, `SELECT count(*) FROM logs`) ||
			n != number(t, pool, `SELECT count(*) FROM tidemark_previous_logs.logs`) {
			t.Errorf("%d documents are the same", n)
		}
		if n := number(t, pool, `SELECT count(*) FROM tidemark.failure_log WHERE act = 'failed'`); n > 0 {
			t.Error("something has failed")
		}
	}
}

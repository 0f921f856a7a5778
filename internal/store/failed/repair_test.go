package failed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/bulk"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

type moved struct {
	By int `json:"by"`
}

// broken is a worker whose projection "ledger" fails on negative moves until it is fixed. The
// ledger numbers its rows in the order of insertion.
type broken struct {
	*projector.Projector
	pool  *pgxpool.Pool
	fixed atomic.Bool
}

func newBroken(t *testing.T) *broken {
	t.Helper()
	b := &broken{pool: pgtest.New(t)}
	h := &projection.Handlers{
		Name: "ledger", Version: 1, Tables: `CREATE TABLE ledger (campaign_id text, line bigint, seq bigint, by int,
			PRIMARY KEY (campaign_id, line))`,
		On: []projection.Handler{
			projection.Handle("moved", func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
				if m.By < 0 && !b.fixed.Load() {
					return projection.Permanent(errors.New("a move by less than nothing"))
				}
				g.Queue(`INSERT INTO ledger SELECT $1, count(*) + 1, $2, $3 FROM ledger
			WHERE campaign_id = $1`, e.CampaignID, e.Seq, m.By)
				return nil
			}),
		},
	}
	var err error
	if b.Projector, err = projector.New(projector.Config{
		Pool:        b.pool,
		Projections: []projection.Projection{h},
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *broken) drain(t *testing.T) {
	t.Helper()
	if _, err := b.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// lines returns the seqs of a campaign in the ledger, in the order of insertion.
func (b *broken) lines(t *testing.T, campaign string) string {
	t.Helper()
	return strings.Join(lines(t, b.pool, `SELECT seq::text FROM ledger WHERE campaign_id = $1
		ORDER BY line`, campaign), " ")
}

func TestARequeueAfterAFixAppliesAllThatWaitedInOrder(t *testing.T) {
	t.Parallel()
	b := newBroken(t)
	for _, campaign := range []string{"a", "b"} {
		appendEvents(t, b.pool, campaign, `{"by": 1}`, `{"by": -2}`, `{"by": 3}`)
	}
	appendEvents(t, b.pool, "c", `{"by": 1}`)
	b.drain(t)
	for i := range 20 { // later events wait
		appendEvents(t, b.pool, "a", fmt.Sprintf(`{"by": %d}`, i))
		b.drain(t)
	}
	if got := b.lines(t, "a"); got != "1" {
		t.Fatalf("before the fix the ledger holds %s", got)
	}
	causes, err := failed.Causes(t.Context(), b.pool, failed.CauseFilter{})
	if err != nil || len(causes) != 1 || causes[0].Dead != 2 || causes[0].Message != "a move by less than nothing" {
		t.Fatalf("got %+v, %v", causes, err)
	}
	d, err := failed.Show(t.Context(), b.pool, failed.Key{Projection: "ledger", CampaignID: "a"})
	if err != nil || d.Event == nil || d.Event.Seq != 2 || string(d.Event.Payload) != `{"by": -2}` || len(d.History) != 1 {
		t.Fatalf("got %+v, %v", d, err)
	}

	b.fixed.Store(true)
	if got, want := requeue(t, b.pool, failed.Filter{Fingerprint: causes[0].Fingerprint}),
		[]string{"ledger/a", "ledger/b"}; !slices.Equal(got, want) {
		t.Fatalf("requeued %v, want %v", got, want)
	}
	b.drain(t)
	want := "1"
	for seq := 2; seq <= 23; seq++ {
		want += fmt.Sprint(" ", seq)
	}
	if got := b.lines(t, "a"); got != want {
		t.Errorf("the ledger holds %s, want %s", got, want)
	}
	if got := b.lines(t, "b"); got != "1 2 3" {
		t.Errorf("the ledger holds %s", got)
	}
	if n, err := failed.Count(t.Context(), b.pool, failed.Filter{}); err != nil || n != 0 {
		t.Errorf("%d pairs are behind, %v", n, err)
	}
	if got, want := lines(t, b.pool, `SELECT act FROM tidemark.failure_log WHERE campaign_id = 'a'
		ORDER BY id`), []string{"dead", "requeued", "recovered"}; !slices.Equal(got, want) {
		t.Errorf("the log says %v, want %v", got, want)
	}
}

func TestAResolvedEventIsSkippedAndWhatFollowsIsApplied(t *testing.T) {
	t.Parallel()
	b := newBroken(t)
	appendEvents(t, b.pool, "a", `{"by": 1}`, `{"by": -2}`, `{"by": 3}`, `{"by": -4}`, `{"by": 5}`)
	appendEvents(t, b.pool, "last", `{"by": 1}`, `{"by": -2}`)
	b.drain(t)
	key := failed.Key{Projection: "ledger", CampaignID: "a"}
	for _, seq := range []int64{2, 4} {
		if err := in(t, b.pool, func(ctx context.Context, tx pgx.Tx) error {
			return failed.Resolve(ctx, tx, key, seq, operator())
		}); err != nil {
			t.Fatal(err)
		}
		b.drain(t)
	}
	if got := b.lines(t, "a"); got != "1 3 5" {
		t.Errorf("the ledger holds %s", got)
	}
	err := in(t, b.pool, func(ctx context.Context, tx pgx.Tx) error {
		return failed.Resolve(ctx, tx, key, 4, operator())
	})
	if !errors.Is(err, failed.ErrNotFound) {
		t.Errorf("the pair has caught up; got error %v", err)
	}
	if err := in(t, b.pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := bulk.Resolve(ctx, tx, failed.Filter{CampaignID: "last"}, operator())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	appendEvents(t, b.pool, "last", `{"by": 3}`)
	b.drain(t)
	if got := b.lines(t, "last"); got != "1 3" {
		t.Errorf("the ledger holds %s", got)
	}
}

func TestAResolvedEventIsNotAppliedByAWorkerThatHasJustReadIt(t *testing.T) {
	t.Parallel()
	b := newBroken(t)
	appendEvents(t, b.pool, "a", `{"by": 1}`, `{"by": -2}`, `{"by": 3}`)
	b.drain(t)
	key := failed.Key{Projection: "ledger", CampaignID: "a"}
	if err := in(t, b.pool, func(ctx context.Context, tx pgx.Tx) error {
		return failed.Requeue(ctx, tx, key, operator())
	}); err != nil {
		t.Fatal(err)
	}
	var once atomic.Bool
	h := &projection.Handlers{
		Name: "ledger", Version: 1,
		On: []projection.Handler{
			projection.Handle("moved", func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
				g.Queue(`INSERT INTO ledger SELECT $1, count(*) + 1, $2, $3 FROM ledger
			WHERE campaign_id = $1`, e.CampaignID, e.Seq, m.By)
				return nil
			}),
		},
	}
	fixed, err := projector.New(projector.Config{
		Pool: b.pool, Projections: []projection.Projection{h},
		OnStep: func(step kind.Step) {
			if step != kind.StepRead || !once.CompareAndSwap(false, true) {
				return
			}
			if err := in(t, b.pool, func(ctx context.Context, tx pgx.Tx) error {
				return failed.Resolve(ctx, tx, key, 2, operator())
			}); err != nil {
				t.Error(err)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fixed.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.lines(t, "a"); got != "1 3" || !once.Load() {
		t.Errorf("the ledger holds %s", got)
	}
}

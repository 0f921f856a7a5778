package tidemarktest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/tidemarktest"
)

func TestMain(m *testing.M) { tidemarktest.Main(m) }

type (
	order   struct{ Total, Reminders int }
	nothing struct{}
)

const (
	placed   event.Type[order]   = "placed"
	reminded event.Type[nothing] = "reminded"
)

func orders() projection.Document[order] {
	return projection.Document[order]{
		Name: "orders", Version: 1,
		On: event.Folds[order]{
			event.On(placed, func(o *order, _ event.Event, p order) error {
				if o.Total = p.Total; p.Total < 0 {
					return projection.Permanent(errors.New("a total below 0"))
				}
				return nil
			}),
			event.On(reminded, func(o *order, _ event.Event, _ nothing) error {
				o.Reminders++
				return nil
			}),
		},
	}
}

// reminders reminds of an order three times at once, each time after the time before, and once in an hour.
func reminders() projection.Process[int] {
	return projection.Process[int]{
		Name: "reminders", Version: 1, From: new(int64),
		Key: func(e event.Event) (string, error) { return e.CampaignID, nil },
		On: event.Folds[int]{
			event.On(reminded, func(n *int, _ event.Event, _ nothing) error {
				*n++
				return nil
			}),
		},
		React: []projection.Reaction[int]{
			projection.React(placed, func(_ *int, e event.Event, _ order) ([]projection.Do, error) {
				again := []event.Event{reminded.New(nothing{})}
				return []projection.Do{{Events: again}, {Events: again, Timer: "later", At: e.RecordedAt.Add(time.Hour)}}, nil
			}),
			projection.React(reminded, func(n *int, _ event.Event, _ nothing) ([]projection.Do, error) {
				if *n >= 3 {
					return nil, nil
				}
				return []projection.Do{{Events: []event.Event{reminded.New(nothing{})}}}, nil
			}),
		},
	}
}

func all(pool *pgxpool.Pool) projector.Config {
	return projector.Config{Pool: pool, Projections: []projection.Projection{orders(), reminders()}}
}

func place(t *testing.T, pool *pgxpool.Pool, campaign string, total int) {
	t.Helper()
	batch := journal.Batch{CampaignID: campaign, Events: []event.Event{placed.New(order{Total: total})}}
	if _, err := (journal.Journal{}).Commit(t.Context(), pool, batch); err != nil {
		t.Fatal(err)
	}
}

func TestApplyReturnsWhenNothingIsLeft(t *testing.T) {
	t.Parallel()
	pool := tidemarktest.New(t)
	for _, campaign := range []string{"order-1", "order-2"} {
		place(t, pool, campaign, 3)
		tidemarktest.Apply(t, all(pool))
		if o, _, err := orders().Get(t.Context(), pool, campaign); err != nil || o != (order{3, 3}) {
			t.Errorf("%s is %+v, %v", campaign, o, err)
		}
	}
	var timers int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM tidemark.scheduled").Scan(&timers); err != nil || timers != 2 {
		t.Errorf("%d timers of a later time are left, %v", timers, err)
	}
}

func TestAReminderIsAppended(t *testing.T) {
	t.Parallel()
	pool := tidemarktest.New(t)
	batch := journal.Batch{CampaignID: "order-1", Events: []event.Event{placed.New(order{Total: 3})}}
	if _, err := (journal.Journal{}).Commit(t.Context(), pool, batch); err != nil {
		t.Fatal(err)
	}
	tidemarktest.Apply(t, projector.Config{Pool: pool, Projections: []projection.Projection{orders(), reminders()}})
	if o, _, err := orders().Get(t.Context(), pool, "order-1"); err != nil || o != (order{3, 3}) {
		t.Errorf("the order is %+v, %v", o, err)
	}
}

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	one, other := tidemarktest.New(t), tidemarktest.New(t)
	place(t, one, "order-1", 1)
	var events int
	if err := other.QueryRow(t.Context(), "SELECT count(*) FROM tidemark.journal").Scan(&events); err != nil || events != 0 {
		t.Errorf("another test's database has %d events, %v", events, err)
	}
}

func TestADatabaseIsDroppedWithItsTest(t *testing.T) {
	t.Parallel()
	watcher := tidemarktest.New(t)
	there := func(name string) (there bool) {
		const query = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
		if err := watcher.QueryRow(t.Context(), query, name).Scan(&there); err != nil {
			t.Error(err)
		}
		return there
	}
	var name string
	t.Run("inner", func(t *testing.T) {
		if name = tidemarktest.New(t).Config().ConnConfig.Database; !there(name) {
			t.Errorf("there is no database %s", name)
		}
	})
	if there(name) {
		t.Errorf("%s outlives its test", name)
	}
}

// record is a test that fails without failing the one around it.
type record struct {
	*testing.T
	failed string
}

func (r *record) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	panic(r)
}

// applied returns how Apply fails.
func applied(t *testing.T, cfg projector.Config) (failed string) {
	t.Helper()
	r := &record{T: t}
	defer func() {
		if at := recover(); at != nil && at != any(r) {
			panic(at)
		}
		failed = r.failed
	}()
	tidemarktest.Apply(r, cfg)
	return ""
}

func TestApplyFailsIfSomethingCannotBeDone(t *testing.T) {
	t.Parallel()
	pool := tidemarktest.New(t)
	place(t, pool, "order-1", -1)
	want := `projection orders cannot apply event 1 of campaign "order-1" (placed): a total below 0`
	if got := applied(t, all(pool)); !strings.Contains(got, want) {
		t.Errorf("a projection that fails: %q", got)
	}

	pool = tidemarktest.New(t)
	place(t, pool, "order-1", 1)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.AppendAt(t.Context(), tx, "order-1", time.Now().Add(-time.Minute), placed.New(order{}))
		if err == nil {
			_, err = tx.Exec(t.Context(), "UPDATE tidemark.limits SET payload_bytes = 2")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := applied(t, projector.Config{Pool: pool, Projections: []projection.Projection{orders()}}); !strings.Contains(got,
		`an append to campaign "order-1" that was due is refused: `) {
		t.Errorf("an append that is refused: %q", got)
	}
	if got := applied(t, projector.Config{}); got == "" {
		t.Error("a configuration without a pool is none")
	}
}

func TestApplyFailsIfAnOpenTransactionHoldsEventsBack(t *testing.T) {
	t.Parallel()
	pool := tidemarktest.New(t)
	if got := applied(t, all(pool)); got != "" { // registers the projections: that waits for open appends
		t.Fatalf("got %q", got)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := (journal.Journal{}).Append(t.Context(), tx, "order-1", journal.Any, placed.New(order{})); err != nil {
		t.Fatal(err)
	}
	place(t, pool, "order-2", 1)
	if got := applied(t, all(pool)); !strings.Contains(got, "an open transaction holds events or due appends back") {
		t.Errorf("got %q", got)
	}
}

func TestWithoutAServerTestsFailAndSayWhatToDo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestEachTestHasADatabaseOfItsOwn$")
	cmd.Env = append(os.Environ(), "TIDEMARK_TEST_DATABASE_URL=postgres://nobody@127.0.0.1:1/nowhere")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL") || !strings.Contains(string(out), "TIDEMARK_TEST_DATABASE_URL") {
		t.Errorf("without a server the run answers %v:\n%s", err, out)
	}
}

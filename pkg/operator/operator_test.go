package operator_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/operator"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/worker"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var errBroken = errors.New("the code is broken")

// seats counts the events of a campaign. It fails at those of type "sold" while broken.
func seats(broken *atomic.Bool) projection.Projection {
	one := func(_ context.Context, g *projection.Group, e event.Event, _ struct{}) error {
		if broken.Load() && e.Type == "sold" {
			return projection.Permanent(errBroken)
		}
		g.Queue("INSERT INTO seats VALUES ($1, 1) ON CONFLICT (campaign_id) DO UPDATE SET n = seats.n + 1", e.CampaignID)
		return nil
	}
	return projection.Handlers{
		Name: "seats", Version: 1,
		Tables: "CREATE TABLE seats (campaign_id text PRIMARY KEY, n int NOT NULL)",
		On:     []projection.Handler{projection.Handle("sold", one), projection.Handle("seen", one)},
	}
}

// shop is a database with a worker.
type shop struct {
	t      *testing.T
	pool   *pgxpool.Pool
	broken atomic.Bool
	op     operator.Operator
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, pool: pgtest.New(t)}
	s.op = operator.Operator{DB: s.pool, Name: "bot", Reason: "a test"}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	w := worker.New(worker.Options{
		Projections: []projection.Projection{seats(&s.broken)}, Logger: slog.New(slog.DiscardHandler),
		Settings: map[string]string{
			"TIDEMARK_DATABASE_URL": s.pool.Config().ConnString(), "TIDEMARK_CONSUMER_GROUP": "shop",
			"TIDEMARK_HTTP_ADDR": "127.0.0.1:0",
		},
	})
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the worker: %v", err)
		}
	})
	s.eventually("the worker is there", `SELECT count(*) = 1 FROM tidemark.projections WHERE name = 'seats'`)
	return s
}

func (s *shop) append(campaign string, types ...string) {
	s.t.Helper()
	var events []event.Event
	for _, name := range types {
		events = append(events, event.Event{Type: name})
	}
	if _, err := (journal.Journal{}).Commit(s.t.Context(), s.pool, journal.Batch{CampaignID: campaign, Events: events}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) eventually(what, sql string, args ...any) {
	s.t.Helper()
	tally.Eventually(s.t, what, tally.Holds(s.pool, sql, args...))
}

func (s *shop) has(campaign string, n int) {
	s.t.Helper()
	tally.Eventually(s.t, campaign+" is applied", func(ctx context.Context) (bool, error) {
		var got int
		err := s.pool.QueryRow(ctx, `SELECT n FROM tidemark_views.seats WHERE campaign_id = $1`, campaign).Scan(&got)
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return got == n, err
	})
}

func (s *shop) failed(f operator.Filter) (campaigns []string) {
	s.t.Helper()
	for c, err := range s.op.Failed(s.t.Context(), f) {
		if err != nil {
			s.t.Fatal(err)
		}
		if c.Projection != "seats" || c.Group != "shop" || c.Status != "dead" || c.EventType != "sold" || c.Class != "permanent" ||
			c.Attempts < 1 || !strings.Contains(c.Message, errBroken.Error()) || c.Fingerprint == "" {
			s.t.Errorf("got %+v", c)
		}
		campaigns = append(campaigns, c.CampaignID)
	}
	slices.Sort(campaigns)
	return campaigns
}

func (s *shop) hasFailed(n int) {
	s.t.Helper()
	tally.Eventually(s.t, "campaigns have failed", func(context.Context) (bool, error) {
		return len(s.failed(operator.Filter{})) == n, nil
	})
}

// ends waits for an operation.
func (s *shop) ends(o operator.Operation, err error) operator.Operation {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	tally.Eventually(s.t, "the operation ends", func(ctx context.Context) (bool, error) {
		o, err = s.op.Operation(ctx, o.ID)
		return o.State != "running", err
	})
	if o.State != "done" || o.Error != "" || o.By != "bot" || o.Reason != "a test" {
		s.t.Errorf("it ended as %+v", o)
	}
	return o
}

func (s *shop) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestWhatFailedIsListedRetriedAndResolved(t *testing.T) {
	t.Parallel()
	s, ctx := newShop(t), t.Context()
	s.broken.Store(true)
	for _, campaign := range []string{"ash", "elm", "oak"} {
		s.append(campaign, "seen", "sold", "seen")
	}
	s.hasFailed(3)
	if got := s.failed(operator.Filter{CampaignID: "elm", Status: []string{"dead"}}); !slices.Equal(got, []string{"elm"}) {
		t.Errorf("got %v", got)
	}
	if got := s.failed(operator.Filter{Status: []string{"failed"}}); got != nil {
		t.Errorf("got %v", got)
	}
	oak := operator.Failed{Projection: "seats", CampaignID: "oak"}
	silent := s.op
	silent.Reason = ""
	if err := silent.Resolve(ctx, oak, 2); !errors.Is(err, operator.ErrInvalid) || !strings.Contains(err.Error(), "reason is missing") {
		t.Errorf("without a reason: %v", err)
	}
	if err := s.op.Resolve(ctx, oak, 3); !errors.Is(err, operator.ErrChanged) {
		t.Errorf("another event: %v", err)
	}
	s.must(s.op.Resolve(ctx, oak, 2))
	s.has("oak", 2)
	s.broken.Store(false)
	s.must(s.op.Unresolve(ctx, oak, 2))
	s.has("oak", 3)
	s.must(s.op.Requeue(ctx, operator.Failed{Projection: "seats", CampaignID: "ash"}))
	s.has("ash", 3)
	if err := s.op.Requeue(ctx, operator.Failed{Projection: "seats", CampaignID: "ash"}); !errors.Is(err, operator.ErrNotFailed) {
		t.Errorf("one that has not failed: %v", err)
	}
	if o := s.ends(s.op.RequeueAll(ctx, operator.Filter{Projection: "seats"})); o.Total != 1 || o.Done != 1 {
		t.Errorf("got %+v", o)
	}
	s.has("elm", 3)
	if _, err := s.op.RequeueAll(ctx, operator.Filter{}); !errors.Is(err, operator.ErrNotFound) {
		t.Errorf("nothing has failed: %v", err)
	}
	s.hasFailed(0)
	if n, err := s.op.Replay(ctx, operator.Replay{Group: "shop", Campaigns: []string{"ash", "elm"}}); err != nil || n != 2 {
		t.Errorf("%d campaigns, %v", n, err)
	}
	s.eventually("all is replayed", `SELECT count(*) = 0 FROM tidemark.failed`)
	s.has("elm", 3)
	// Each act stands in the log, as a program's.
	rows, _ := s.pool.Query(ctx, `SELECT act FROM tidemark.operator_log WHERE actor = 'bot' AND reason = 'a test' AND way IS NULL ORDER BY id`)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	want := []string{"failed_resolved", "failed_unresolved", "failed_requeued", "operation_started", "campaign_replayed"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the log has %v, %v, want %v", got, err, want)
	}
}

func TestWhatIsPausedWaitsAndWhatIsRebuiltGoesBack(t *testing.T) {
	t.Parallel()
	s, ctx := newShop(t), t.Context()
	s.append("oak", "seen")
	s.has("oak", 1)
	for _, target := range []operator.Target{
		{Projection: "seats"}, {Group: "shop"}, {Group: "shop", CampaignID: "oak"},
	} {
		s.must(s.op.Pause(ctx, target, time.Hour))
		s.eventually("it is paused", `SELECT count(*) = 1 FROM tidemark.pauses WHERE expires_at > clock_timestamp()`)
		s.must(s.op.Resume(ctx, target))
		s.eventually("it is resumed", `SELECT count(*) = 0 FROM tidemark.pauses`)
	}
	begun, err := s.op.Rebuild(ctx, operator.Rebuild{
		Projection: "seats", Version: new(1), Keep: new(time.Hour), MaxShare: new(1.0), AllowFailed: new(int64(2)), Verify: new(10),
		Ignore: []string{"n"},
	})
	if err != nil || !begun {
		t.Fatalf("%v, %v", begun, err)
	}
	var detail string
	s.must(s.pool.QueryRow(ctx, `SELECT detail FROM tidemark.operator_log WHERE act = 'rebuild_started'`).Scan(&detail))
	for _, option := range []string{
		`"version": 1`, `"max_share": 1`, `"allow_failed": 2`, `"keep": "1h0m0s"`, `"verify": 10`, `"ignore": ["n"]`,
	} {
		if !strings.Contains(detail, option) {
			t.Errorf("the rebuild has %s, want %s", detail, option)
		}
	}
	s.eventually("it is rebuilt", `SELECT count(*) = 1 FROM tidemark.projections WHERE name = 'seats~previous'`)
	s.ends(s.op.RollBack(ctx, operator.RollBack{Projection: "seats", AllowBehind: 1, Keep: time.Hour}))
	s.has("oak", 1)
	if err := s.op.AbortRebuild(ctx, "seats"); err == nil {
		t.Error("a rebuild that does not run was aborted")
	}
	if _, err := s.op.RollBack(ctx, operator.RollBack{Projection: "stalls"}); err == nil {
		t.Error("a projection that does not exist was rolled back")
	}
	if err := s.op.RemoveGroup(ctx, "shop"); !errors.Is(err, operator.ErrInUse) {
		t.Errorf("a group with a projection: %v", err)
	}
	s.must(s.op.RemoveProjection(ctx, "seats", true))
	if err := s.op.RemoveProjection(ctx, "seats", true); !errors.Is(err, operator.ErrNoProjection) {
		t.Errorf("removed twice: %v", err)
	}
	s.eventually("its tables are gone", `SELECT to_regclass('tidemark_views.seats') IS NULL`)
	s.must(s.op.RemoveGroup(ctx, "shop"))
	if err := s.op.RemoveGroup(ctx, "shop"); !errors.Is(err, operator.ErrNoGroup) {
		t.Errorf("a group removed twice: %v", err)
	}
}

func TestAWorkerIsDrained(t *testing.T) {
	t.Parallel()
	s, ctx := newShop(t), t.Context()
	var owner string
	s.eventually("it is listed", `SELECT count(*) = 1 FROM tidemark.workers`)
	s.must(s.pool.QueryRow(ctx, `SELECT owner FROM tidemark.workers`).Scan(&owner))
	s.must(s.op.Drain(ctx, owner))
	s.append("oak", "seen")
	s.must(s.op.Undrain(ctx, owner))
	s.has("oak", 1)
	if err := s.op.Drain(ctx, "nobody"); !errors.Is(err, operator.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestAKeyMakesAnActHappenOnce(t *testing.T) {
	t.Parallel()
	s, ctx := newShop(t), t.Context()
	s.op.Key = "deploy 7"
	for range 2 {
		s.must(s.op.Pause(ctx, operator.Target{Group: "shop"}, 0))
	}
	if err := s.op.Pause(ctx, operator.Target{Group: "other"}, 0); err == nil || !strings.Contains(err.Error(), "idempotency key") {
		t.Errorf("another act with the key: %v", err)
	}
	s.eventually("it was done once", `SELECT count(*) = 1 FROM tidemark.operator_log`)
}

func TestMistakesOfAProgramAreNamed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	target := operator.Target{Group: "shop"}
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"no database": {operator.Operator{Name: "bot"}.Pause(t.Context(), target, 0), "Operator.DB is missing"},
		"no name":     {operator.Operator{DB: pool}.Pause(t.Context(), target, 0), "name is missing"},
		"no target":   {operator.Operator{DB: pool, Name: "bot"}.Pause(t.Context(), operator.Target{}, 0), "name a projection, or a group"},
		"two targets": {
			operator.Operator{DB: pool, Name: "bot"}.Resume(t.Context(), operator.Target{Group: "a", Projection: "b"}), "name a projection, or",
		},
		"no campaign": {operator.Operator{DB: pool, Name: "bot"}.Requeue(t.Context(), operator.Failed{Projection: "a"}), "campaign"},
		"no event": {
			operator.Operator{DB: pool, Name: "bot", Reason: "x"}.Resolve(t.Context(), operator.Failed{Projection: "a", CampaignID: "b"}, 0),
			"seq",
		},
	} {
		if c.err == nil || !errors.Is(c.err, operator.ErrInvalid) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", what, c.err, c.want)
		}
	}
}

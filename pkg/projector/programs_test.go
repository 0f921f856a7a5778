package projector_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// countFailed counts the row versions written to tidemark.failed, and the deleted rows.
func countFailed(t *testing.T, pool *pgxpool.Pool) (count func() int) {
	t.Helper()
	exec(t, pool, `CREATE SEQUENCE public.written MINVALUE 0;
		CREATE FUNCTION public.count_version() RETURNS trigger
			LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('public.written'); RETURN NULL; END $$;
		CREATE TRIGGER count_version AFTER INSERT OR UPDATE
			OR DELETE ON tidemark.failed FOR EACH ROW EXECUTE FUNCTION public.count_version()`)
	return func() int { return query[int](t, pool, `SELECT last_value FROM public.written`) }
}

func TestTwoProgramsInOneGroupHandOverEachCampaignAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	const campaigns, rounds = 4, 60
	pool := pgtest.New(t)
	count := countFailed(t, pool)
	run := func(projections ...projection.Projection) {
		p, err := projector.New(projector.Config{
			Pool: pool, Projections: projections, ConsumerGroup: "shared",
			PollInterval: 100 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	run(counters())
	run(ledger())
	within(t, "both projections are active", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark.projections WHERE state = 'active'`) == 2
	})
	start := time.Now()
	for round := range rounds {
		for c := range campaigns {
			appendMoves(t, pool, fmt.Sprint("c", c), 1)
		}
		within(t, "the group has applied the round", func() bool {
			return query[int](t, pool, `SELECT count(*) FROM tidemark.leases WHERE checkpoint = $1`, round+1) == campaigns
		})
	}
	within(t, "both projections have applied all", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark_views.ledger`) == campaigns*rounds &&
			query[int](t, pool, `SELECT coalesce(sum((doc ->> 'count')::integer), 0)
				FROM tidemark_views.counters`) == campaigns*rounds
	})
	seconds := int(time.Since(start)/time.Second) + 2
	within(t, "nothing is behind", func() bool {
		return query[int](t, pool,
			`SELECT count(*) FROM tidemark.failed`) == 0
	})
	most := 2 * 2 * campaigns * seconds // each failed campaign costs one insert and one delete
	if written := count(); written > most {
		t.Errorf("%d events in %d s cost %d row versions of tidemark.failed, want at most %d", campaigns*rounds, seconds,
			written, most)
	} else {
		t.Logf("%d events in %d s cost %d row versions of tidemark.failed, of %d", campaigns*rounds, seconds, written, most)
	}
}

func TestAWorkerSaysWhichProjectionsOfItsGroupItDoesNotHave(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const group = "programs"
	logging := func(projection projection.Projection) (*projector.Projector, *lockedBuffer) {
		log := &lockedBuffer{}
		return workerOf(t, pool, func(c *projector.Config) {
			c.Logger, c.ConsumerGroup = slog.New(slog.NewJSONHandler(log, nil)), group
		}, projection), log
	}
	first, firstLog := logging(counters())
	second, secondLog := logging(ledger())
	drain(t, first)
	if log := firstLog.String(); strings.Contains(log, "projections that this worker does not have") {
		t.Errorf("alone in its group a worker says: %s", log)
	}
	for range 2 {
		drain(t, second)
		drain(t, first)
	}
	for _, tt := range []struct{ log, level, projection string }{
		{secondLog.String(), "WARN", "counters"},
		{firstLog.String(), "INFO", "ledger"},
	} {
		want := fmt.Sprintf(`"consumer_group":"programs","projections":["%s"]`, tt.projection)
		if strings.Count(tt.log, want) != 1 || !strings.Contains(tt.log, `"level":"`+
			tt.level+`","msg":"the consumer group has projections`) {
			t.Errorf("want once at %s %s, got %s", tt.level, want, tt.log)
		}
	}
}

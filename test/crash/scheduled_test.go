package crash_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// plan schedules appends to forty campaigns, due in the next five seconds, and keeps what is
// expected of them.
const plan = `
	CREATE TABLE public.plan AS
	SELECT tidemark.append_at(p.campaign, p.due, jsonb_build_array(jsonb_build_object('type', $1::text, 'payload',
		jsonb_build_object('n', p.n)))) AS id, p.campaign, p.due, p.n, false AS cancelled
	FROM (SELECT 'campaign-' || n % 40 AS campaign, n, date_trunc('milliseconds', clock_timestamp()) +
		(n * 7919 % 5000) * interval '1 ms' AS due FROM generate_series(1, 4000) AS n) AS p`

// wrong lists what is not as planned: appends that are missing, made twice, made although they were
// cancelled, made too early, or made before an earlier one of their campaign.
const wrong = `
	SELECT coalesce(string_agg(w.what || ' ' || w.id, ', '), '') FROM (
		SELECT CASE WHEN p.cancelled THEN 'cancelled and made' ELSE 'not made once' END AS what, p.id
		FROM public.plan p LEFT JOIN tidemark.journal j ON j.campaign_id = p.campaign AND (j.payload ->> 'n')::bigint = p.n
		GROUP BY p.id, p.cancelled HAVING count(j.seq) <> CASE WHEN p.cancelled THEN 0 ELSE 1 END
		UNION ALL
		SELECT 'early', p.id FROM public.plan p JOIN tidemark.journal j ON j.campaign_id = p.campaign
			AND (j.payload ->> 'n')::bigint = p.n AND j.recorded_at < p.due
		UNION ALL
		SELECT 'out of order', o.id FROM (
			SELECT p.id, row_number() OVER (PARTITION BY p.campaign ORDER BY p.due, p.id) AS planned, j.seq
			FROM public.plan p JOIN tidemark.journal j ON j.campaign_id = p.campaign AND (j.payload ->> 'n')::bigint = p.n
		) AS o WHERE o.planned <> o.seq
	) AS w`

// TestScheduledAppendsAreMadeOnceWhoeverIsKilled kills workers and the server while appends fall
// due, and cancels some. One worker is stopped all the time.
func TestScheduledAppendsAreMadeOnceWhoeverIsKilled(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	if err := migrations.Up(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	pool := tally.Pool(t, server.URL(), "test", 6)
	r := &replicas{cfg: standard(server.URL(), "")}
	r.cfg.PollInterval = 100 * time.Millisecond
	r.start(t, 3)
	tally.Eventually(t, "the workers live", tally.Holds(pool, `SELECT count(*) = 3 FROM tidemark.workers`))
	tally.Exec(t, pool, plan, tally.Event(0).Type)
	stopped := r.running[0]
	stopped.Signal(t, syscall.SIGSTOP)
	kills := time.NewTicker(200 * time.Millisecond)
	defer kills.Stop()
	for n := range 24 {
		<-kills.C
		if n%8 == 7 {
			if err := server.Restart(t.Context(), devpg.Immediate); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for range 10 {
			id := 1 + rand.Int64N(4000)
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				cancelled, err := journal.Cancel(t.Context(), tx, id)
				if err == nil && cancelled {
					_, err = tx.Exec(t.Context(), `UPDATE public.plan SET cancelled = true WHERE id = $1`, id)
				}
				return err
			}); err != nil {
				t.Logf("cancel: %v", err)
			}
		}
		if victim := r.running[1+rand.IntN(2)]; !victim.Ended() {
			victim.Signal(t, syscall.SIGKILL)
			victim.Ends(t)
		}
		r.restart(t)
	}
	r.until(t, "all appends are made", tally.Holds(pool, `SELECT NOT EXISTS (SELECT FROM tidemark.scheduled)`))
	stopped.Signal(t, syscall.SIGCONT)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
	if w := tally.Value[string](t, pool, wrong); w != "" {
		t.Error(w)
	}
	t.Logf("%d kills, %d cancelled", r.crashes, tally.Value[int](t, pool, `SELECT count(*) FROM public.plan WHERE cancelled`))
	for _, p := range r.running {
		p.Terminate(t)
	}
}

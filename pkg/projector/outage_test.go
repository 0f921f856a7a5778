package projector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// outage has a function that raises the SQLSTATE of public.outage for one campaign.
const outage = `
	CREATE TABLE public.outage (state text);
	CREATE FUNCTION public.unless_away(campaign text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		found text := (SELECT o.state FROM public.outage o);
	BEGIN
		IF campaign = 'bad' AND found IS NOT NULL THEN
			RAISE EXCEPTION 'away' USING ERRCODE = found;
		END IF;
		RETURN campaign;
	END $$`

func brittle(t *testing.T, version int) projection.Projection {
	t.Helper()
	file, err := sqlfile.Load(fstest.MapFS{"f.sql": {Data: fmt.Appendf(nil, `-- projection: brittle
-- version: %d
CREATE TABLE brittle (campaign_id text COLLATE "C" NOT NULL, seq bigint NOT NULL);
-- on: moved
INSERT INTO brittle VALUES (public.unless_away(event.campaign_id), event.seq);
`, version)}}, "f.sql")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestARebuildWaitsAtAnErrorOfItsOwn copies the campaigns that do not fail. The live tables go on.
func TestARebuildWaitsAtAnErrorOfItsOwn(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"53100": "bad brittle~next 1 failed 0 infrastructure 53100", "08006": "bad brittle~next 1 failed 1 transient 08006",
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			exec(t, pool, outage)
			for _, campaign := range []string{"a", "bad", "c"} {
				appendMoves(t, pool, campaign, 1, 2)
			}
			drain(t, newProjector(t, pool, brittle(t, 1), ledger()))
			exec(t, pool, `INSERT INTO public.outage VALUES ($1)`, state)
			two := newProjector(t, pool, brittle(t, 2), ledger())
			drain(t, two)
			expectPairs(t, pool, want)
			expectText(t, pool, "copied", "a 2, c 2", `SELECT string_agg(concat_ws(' ', campaign_id, n), ', ' ORDER BY 1)
				FROM (SELECT campaign_id, count(*) AS n FROM tidemark_next_brittle.brittle GROUP BY 1) x`)
			exec(t, pool, `DELETE FROM public.outage`)
			retry(t, pool, two)
			expectPairs(t, pool, "")
			exec(t, pool, `UPDATE tidemark.rebuilds SET refused_at = NULL`) // or the exchange is tried again after 10 s
			drain(t, two)
			expectText(t, pool, "swapped", "2 6", `SELECT concat_ws(' ', p.version, (SELECT count(*) FROM brittle))
				FROM tidemark.projections p WHERE p.name = 'brittle'`)
		})
	}
}

// TestAVerificationEndsWithAnOutage counts a campaign as failed only if the event may be at fault.
func TestAVerificationEndsWithAnOutage(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, outage)
	for _, campaign := range []string{"a", "bad", "c"} {
		appendMoves(t, pool, campaign, 1, 2)
	}
	p := newProjector(t, pool, brittle(t, 1))
	drain(t, p)
	exec(t, pool, `INSERT INTO public.outage VALUES ('53100')`)
	_, err := p.Verify(t.Context(), lookback.VerifyRequest{Projection: "brittle", All: true})
	if err == nil || !strings.Contains(err.Error(), "projection brittle") || !strings.Contains(err.Error(), "53100") {
		t.Errorf("Verify = %v, want the error of the projection", err)
	}
	exec(t, pool, `UPDATE public.outage SET state = '08006'`)
	report, _ := verified(t, p, lookback.VerifyRequest{Projection: "brittle", All: true})
	if report.Failed != 1 || report.Campaigns != 3 {
		t.Errorf("%+v, want one of three campaigns failed", report)
	}
}

// TestAnInlineApplyReturnsAnOutage goes on in the application's transaction.
func TestAnInlineApplyReturnsAnOutage(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"08006", "53100", "57014"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			exec(t, pool, outage)
			exec(t, pool, `INSERT INTO public.outage VALUES ($1)`, state)
			p := inlineProjector(t, pool, projector.Config{Projections: []projection.Projection{brittle(t, 1), ledger()}})
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			appended, err := journal.Journal{}.Append(t.Context(), tx, "bad", journal.Any, moveEvents(1)...)
			if err != nil {
				t.Fatal(err)
			}
			var refused *pgconn.PgError
			if err := p.ApplyInline(t.Context(), tx, appended...); !errors.As(err, &refused) || refused.Code != state ||
				!strings.Contains(err.Error(), "projection brittle") {
				t.Errorf("ApplyInline = %v, want %s of the projection", err, state)
			}
			if appended, err = (journal.Journal{}).Append(t.Context(), tx, "a", journal.Any, moveEvents(1)...); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(p.ApplyInline(t.Context(), tx, appended...), tx.Commit(t.Context())); err != nil {
				t.Fatal(err)
			}
			expectPairs(t, pool, "")
			expectText(t, pool, "applied", "1 1", `SELECT concat_ws(' ', (SELECT count(*) FROM brittle),
				(SELECT count(*) FROM ledger))`)
		})
	}
}

// TestAProcessWaitsAtAnErrorOfItsOwn lets the table of the states, or the append of a reaction, meet the
// infrastructure for one key. The others react.
func TestAProcessWaitsAtAnErrorOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, trigger := range map[string]string{
		"in_its_table": `CREATE TRIGGER away BEFORE INSERT ON tidemark_views.orders FOR EACH ROW WHEN (NEW.key = 'bad')
			EXECUTE FUNCTION public.away()`,
		"in_a_reaction": `CREATE TRIGGER away BEFORE INSERT ON tidemark.scheduled FOR EACH ROW
			WHEN (NEW.campaign_id = 'bad') EXECUTE FUNCTION public.away()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			exec(t, pool, `CREATE FUNCTION public.away() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				RAISE EXCEPTION 'away' USING ERRCODE = '53100'; END $$`)
			p := workerOf(t, pool, nil, orders(nil))
			drain(t, p)
			exec(t, pool, trigger)
			for _, key := range []string{"a", "bad", "c"} {
				appendEvents(t, pool, key, event.Event{Type: "placed"})
			}
			drain(t, p)
			expectPairs(t, pool, "bad orders "+query[string](t, pool, `SELECT position::text FROM tidemark.journal
				WHERE campaign_id = 'bad'`)+" failed 0 infrastructure 53100")
			const each = "stock reserved orders 0, %s expired orders/%d:%[1]s/payment orders 60"
			a, bad, c := fmt.Sprintf(each, "a", 1), fmt.Sprintf(each, "bad", 3), fmt.Sprintf(each, "c", 1)
			expectScheduled(t, pool, a+", "+c)
			exec(t, pool, `DROP FUNCTION public.away CASCADE`)
			retry(t, pool, p)
			expectPairs(t, pool, "")
			expectScheduled(t, pool, a+", "+c+", "+bad)
		})
	}
}

// TestASlowErrorHoldsUpNoOtherProjection has a statement that takes a second until it fails, as one that waits for
// a server that does not answer. Not every campaign of the group waits for it.
func TestASlowErrorHoldsUpNoOtherProjection(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			exec(t, pool, `CREATE SEQUENCE public.tries; CREATE TABLE public.mended (yes boolean);
				CREATE FUNCTION public.ask() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
					IF NOT EXISTS (SELECT FROM public.mended) THEN
						PERFORM nextval('public.tries'), pg_sleep(1);
						RAISE EXCEPTION 'no answer' USING ERRCODE = '08001';
					END IF; END $$`)
			config := pool.Config()
			setMode(config, mode)
			workers, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(workers.Close)
			tally.Run(t, projector.Config{
				Pool: workers, Concurrency: 1, PollInterval: 100 * time.Millisecond,
				Projections: []projection.Projection{ledger(), listing("",
					func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
						g.Queue(`SELECT public.ask()`)
						return list(g, e, m)
					})},
			})
			var batches []journal.Batch
			for i := range 30 {
				batches = append(batches, journal.Batch{CampaignID: fmt.Sprint("c", i), Events: moveEvents(1, 2)})
			}
			tally.AppendAll(t, pool, batches...)
			within(t, "the other projection has applied all", func() bool {
				return query[bool](t, pool, `SELECT to_regclass('ledger') IS NOT NULL`) &&
					query[int](t, pool, `SELECT count(*) FROM ledger`) == 60
			})
			if n := query[int](t, pool, `SELECT last_value FROM public.tries`); n > 10 {
				t.Errorf("%d events were tried before the other projection was done, want at most 10", n)
			}
			expectText(t, pool, "pairs", "30 0 08001", `SELECT concat_ws(' ', count(*), min(attempt_count),
				string_agg(DISTINCT error_code, ' ')) FROM tidemark.failed WHERE projection = 'listing'`)
			expectText(t, pool, "causes", "1", `SELECT count(DISTINCT fingerprint)::text FROM tidemark.failed`)
			exec(t, pool, `INSERT INTO public.mended VALUES (true)`)
			within(t, "all is applied", func() bool {
				exec(t, pool, `UPDATE tidemark.failed SET next_attempt_at = now()
					WHERE status = 'failed' AND next_attempt_at > now()`)
				return query[bool](t, pool, `SELECT count(*) = 60 FROM listed`)
			})
		})
	}
}

// TestAnErrorAtCommitIsFoundWhateverItsClass has a constraint trigger that meets the infrastructure at COMMIT, as a
// statement of ours may. The next group looks ahead, and finds whose it is.
func TestAnErrorAtCommitIsFoundWhateverItsClass(t *testing.T) {
	t.Parallel()
	for at, scope := range map[string]string{
		"seq": "", "position": "-- scope: journal\n-- key: campaign_id = event.campaign_id\n",
	} {
		for _, state := range []string{"53100", "08006"} {
			t.Run(state+" at "+at, func(t *testing.T) {
				t.Parallel()
				pool := pgtest.New(t)
				exec(t, pool, outage)
				exec(t, pool, `CREATE FUNCTION public.later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					PERFORM public.unless_away(NEW.campaign_id); RETURN NULL; END $$`)
				file, err := sqlfile.Load(fstest.MapFS{"f.sql": {Data: fmt.Appendf(nil, `-- projection: late
-- version: 1
%sCREATE TABLE late (campaign_id text COLLATE "C" NOT NULL, seq bigint NOT NULL);
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	EXECUTE FUNCTION public.later();
-- on: moved
INSERT INTO late VALUES (event.campaign_id, event.seq);
`, scope)}}, "f.sql")
				if err != nil {
					t.Fatal(err)
				}
				p := workerOf(t, pool, nil, ledger(), file)
				drain(t, p)
				exec(t, pool, `INSERT INTO public.outage VALUES ($1)`, state)
				for _, campaign := range []string{"a", "bad", "c"} {
					appendMoves(t, pool, campaign, 1)
				}
				if _, err := p.Drain(t.Context()); !failure.IsInfrastructure(err) {
					t.Errorf("the first drain ends with %v, want the error of its COMMIT", err)
				}
				drain(t, p)
				counted := map[string]string{"53100": "0 infrastructure", "08006": "1 transient"}[state]
				expectPairs(t, pool, "bad late "+query[string](t, pool, `SELECT `+at+`::text FROM tidemark.journal
					WHERE campaign_id = 'bad'`)+" failed "+counted+" "+state)
				expectText(t, pool, "applied", "2 3", `SELECT concat_ws(' ', (SELECT count(*) FROM late),
					(SELECT count(*) FROM ledger))`)
				exec(t, pool, `DELETE FROM public.outage`)
				retry(t, pool, p)
				expectText(t, pool, "applied", "3", `SELECT count(*)::text FROM late`)
			})
		}
	}
}

package pgbouncer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// troubles are errors that a projection's statement has on a living connection. waits tells whether the
// projection waits there without a counted attempt.
var troubles = []struct { //nolint:gochecknoglobals // a constant
	name, code string
	waits      bool
}{
	{"away", "08001", false},  // truly: a foreign table whose server is away
	{"spill", "53400", false}, // truly: temp_file_limit
	{"08006", "08006", false},
	{"28p01", "28P01", false},
	{"3d000", "3D000", false},
	{"40001", "40001", true},
	{"53100", "53100", true},
	{"53200", "53200", true},
	{"53300", "53300", true},
	{"57014", "57014", true},
	{"57p01", "57P01", true},
	{"58030", "58030", true},
	{"25006", "25006", true},
	{"25p03", "25P03", true},
}

const troubled = `
	CREATE EXTENSION postgres_fdw;
	CREATE SERVER rates FOREIGN DATA WRAPPER postgres_fdw
		OPTIONS (host '127.0.0.1', port '1', dbname 'rates', connect_timeout '2');
	CREATE USER MAPPING FOR PUBLIC SERVER rates OPTIONS (user 'postgres', password_required 'false');
	CREATE FOREIGN TABLE public.rate (value numeric) SERVER rates;
	CREATE TABLE public.troubles (name text, campaign text, seq bigint);
	CREATE FUNCTION public.spill() RETURNS bigint LANGUAGE sql SET temp_file_limit = 64 SET work_mem = 64
		AS $$ SELECT count(DISTINCT i) FROM generate_series(1, 100000) i $$;
	CREATE FUNCTION public.trouble(p_name text, p_campaign text, p_seq bigint) RETURNS bigint LANGUAGE plpgsql AS $$
	BEGIN
		IF EXISTS (SELECT FROM public.troubles t WHERE t.name = p_name AND t.campaign IN (p_campaign, '*')
			AND t.seq IN (p_seq, 0)) THEN
			IF p_name = 'away' THEN
				PERFORM FROM public.rate;
			ELSIF p_name = 'spill' THEN
				PERFORM public.spill();
			END IF;
			RAISE EXCEPTION 'trouble of %', p_name USING ERRCODE = upper(p_name);
		END IF;
		RETURN p_seq;
	END $$`

// sold returns a projection whose statements call trouble with an expression for its name.
func sold(t *testing.T, name, trouble string, across bool) projection.Projection {
	t.Helper()
	scope := ""
	if across {
		scope = "-- scope: journal\n-- key: campaign_id = event.campaign_id\n"
	}
	file, err := sqlfile.Load(fstest.MapFS{"f.sql": {Data: fmt.Appendf(nil, `-- projection: %s
-- version: 1
%sCREATE TABLE %[1]s (campaign_id text COLLATE "C" NOT NULL, seq bigint NOT NULL);
-- on: sold
INSERT INTO %[1]s VALUES (event.campaign_id, public.trouble(%[3]s, event.campaign_id, event.seq));
`, name, scope, trouble)}}, "f.sql")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAnErrorOfOneProjectionStopsNoOther lets a projection for each SQLSTATE fail at one event, at all
// events, or at all events of a campaign at which every projection fails. Beside them 20 campaigns of a
// healthy projection of the group are applied within seconds, and each failure has a row that names the error.
// Once the cause is gone everything is applied once.
func TestAnErrorOfOneProjectionStopsNoOther(t *testing.T) {
	t.Parallel()
	for scope, cause := range map[string]string{
		"one_event":      `INSERT INTO public.troubles SELECT unnest($1::text[]), 'bad', 5`,
		"one_projection": `INSERT INTO public.troubles SELECT unnest($1::text[]), '*', 0`,
		"all":            `INSERT INTO public.troubles SELECT n, 'bad-' || n, 0 FROM unnest($1::text[]) n`,
	} {
		for _, across := range []bool{false, true} {
			for _, execMode := range []string{"", "exec"} {
				name := scope + map[bool]string{true: "_across_campaigns"}[across]
				if execMode != "" {
					name += "_behind_pgbouncer"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					pool := pgtest.New(t)
					url := pool.Config().ConnString()
					if execMode != "" {
						url = startBouncer(t, pool, execMode)
					}
					expectOthersGoOn(t, pool, url, cause, across)
				})
			}
		}
	}
}

func expectOthersGoOn(t *testing.T, pool *pgxpool.Pool, url, cause string, across bool) {
	t.Helper()
	tally.Exec(t, pool, troubled)
	projections := []projection.Projection{sold(t, "healthy", "substr(event.campaign_id, 5)", across)}
	var names []string
	for _, one := range troubles {
		names = append(names, one.name)
		projections = append(projections, sold(t, "s_"+one.name, "'"+one.name+"'", across))
	}
	tally.Run(t, projector.Config{
		Pool: tally.Pool(t, url, "worker", 6), Projections: projections, PollInterval: 100 * time.Millisecond,
		LeaseTTL: 10 * time.Second, Concurrency: 2,
	})
	sell := func(prefix string) (took time.Duration) {
		t.Helper()
		start, batches := time.Now(), []journal.Batch{}
		for i := range 20 {
			batches = append(batches, sales(fmt.Sprint(prefix, i)))
		}
		tally.AppendAll(t, pool, append(batches, sales("bad"))...)
		tally.Eventually(t, "20 of 20 healthy campaigns are applied", tally.Holds(pool, `SELECT count(*) = 60
			FROM tidemark_views.healthy WHERE campaign_id ^@ $1`, prefix))
		return time.Since(start)
	}
	tally.Eventually(t, "the worker lives", tally.Holds(pool, `SELECT count(*) = $1 FROM tidemark.projections
		WHERE state = 'active'`, len(projections)))
	usual := sell("before-")
	tally.Exec(t, pool, cause, names)
	events := 3 * (2*20 + 2) // of 20 campaigns before and after, and of bad twice
	if strings.Contains(cause, "bad-") {
		for _, name := range names {
			tally.AppendAll(t, pool, sales("bad-"+name))
			events += 3
		}
	}
	// All SQLSTATEs share the 5 s. A busy machine takes longer for both.
	if took := sell("after-"); took > max(5*time.Second, 50*usual) {
		t.Errorf("20 healthy campaigns took %v, and %v before there was a trouble", took, usual)
	}
	for _, one := range troubles {
		tally.Eventually(t, "a row names "+one.code, tally.Holds(pool, `SELECT count(*) > 0
			AND bool_and(d.status = 'failed' AND d.error_code = $2 AND d.error_message <> ''
				AND (d.attempt_count = 0) = $3 AND (d.error_class = 'infrastructure') = $3)
			FROM tidemark.failed d WHERE d.projection = $1 AND d.last_failed_at IS NOT NULL`,
			"s_"+one.name, one.code, one.waits))
	}
	tally.Exec(t, pool, `DELETE FROM public.troubles`)
	tally.Eventually(t, "everything is applied", func(ctx context.Context) (bool, error) {
		if _, err := pool.Exec(ctx, `UPDATE tidemark.failed SET next_attempt_at = now()
			WHERE status = 'failed' AND next_attempt_at > now()`); err != nil {
			return false, err
		}
		return tally.Holds(pool, `SELECT NOT EXISTS (SELECT FROM tidemark.failed)`)(ctx)
	})
	for _, p := range projections {
		name := p.Spec().Name
		if got := tally.Value[[]int](t, pool, fmt.Sprintf(`SELECT ARRAY[count(*), count(DISTINCT (campaign_id, seq))]
			FROM tidemark_views.%s`, name)); !slices.Equal(got, []int{events, events}) {
			t.Errorf("%s has %v rows and different rows, want %d of both", name, got, events)
		}
	}
}

func sales(campaign string) journal.Batch {
	return journal.Batch{CampaignID: campaign, Events: []event.Event{{Type: "sold"}, {Type: "sold"}, {Type: "sold"}}}
}

package projector_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

const formatsFile = `-- projection: %s
-- version: 1
%s
CREATE TABLE %[1]s (campaign_id text COLLATE "C" PRIMARY KEY, said text);
-- on: sold
INSERT INTO %[1]s VALUES (event.campaign_id, concat_ws(' ', event.occurred_at::date, event.occurred_at,
	date '2026-02-03', interval '36 hours 5 minutes', '\x00ff'::bytea, 0.1::float8 + 0.2::float8, '04/05/2026'::date));
`

// One instant is one day, whoever applies the event.
func TestRowsDoNotDependOnTheSessionsFormats(t *testing.T) {
	t.Parallel()
	var files []projection.Projection
	for name, header := range map[string]string{
		"campaigns": "", "journals": "-- scope: journal\n-- key: campaign_id = event.campaign_id\n",
	} {
		file, err := sqlfile.Load(fstest.MapFS{"f.sql": {Data: fmt.Appendf(nil, formatsFile, name, header)}}, "f.sql")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	for _, mode := range []string{"cache_statement", "exec"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			usual := openWith(t, url, session.Direct)
			sold := event.Event{Type: "sold", OccurredAt: time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC)}
			appendEvents(t, usual, "usual", sold)
			drain(t, workerOf(t, usual, nil, files...))
			for _, setting := range []string{
				"TimeZone = 'Pacific/Chatham'", "DateStyle = 'SQL, DMY'", "IntervalStyle = sql_standard", "bytea_output = escape",
				"extra_float_digits = -15", "standard_conforming_strings = off",
			} {
				tally.Exec(t, usual, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET ', current_database())
					|| $sql$`+setting+`$sql$; END $$`)
			}
			odd := openWith(t, pgtest.With(url, "default_query_exec_mode", mode), session.Encoding)
			if mode == "exec" { // times come as text
				var refused *event.EncodingError
				if err := workerOf(t, odd, nil, files...).Run(t.Context()); !errors.As(err, &refused) || refused.Format == "" {
					t.Errorf("times that pgx cannot read: got %v", err)
				}
				url := pgtest.With(pgtest.With(url, "datestyle", "ISO"), "intervalstyle", "postgres")
				odd = openWith(t, pgtest.With(url, "default_query_exec_mode", mode), session.Encoding)
			}
			worker := workerOf(t, odd, nil, files...)
			appendEvents(t, usual, "odd", sold)
			drain(t, worker)
			const rows = `SELECT count(DISTINCT said) || ' ' || count(*) || ' ' || min(said) FROM
				(SELECT said FROM tidemark_views.campaigns UNION ALL SELECT said FROM tidemark_views.journals) r`
			const want = "1 4 2026-03-01 2026-03-01 23:30:00+00 2026-02-03 36:05:00 \\x00ff 0.30000000000000004 2026-04-05"
			if got := tally.Value[string](t, usual, rows); got != want {
				t.Errorf("rows are %s, want %s: %s", got, want, tally.Value[string](t, usual, `SELECT string_agg(said, E'\n') FROM
					(SELECT said FROM tidemark_views.campaigns UNION ALL SELECT said FROM tidemark_views.journals) r`))
			}
		})
	}
}

func openWith(t *testing.T, url string, settings func(*pgx.ConnConfig)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	settings(cfg.ConnConfig)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// ApplyInline pins the formats of its own statements alone.
func TestInlineApplyRestoresTheApplicationsFormats(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	file, err := sqlfile.Load(fstest.MapFS{"f.sql": {Data: fmt.Appendf(nil, formatsFile, "campaigns", "")}}, "f.sql")
	if err != nil {
		t.Fatal(err)
	}
	p := workerOf(t, pool, func(c *projector.Config) { c.Mode = projection.ModeInlineApplyOnly }, file)
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		const formats = `SELECT concat_ws(' ', current_setting('TimeZone'), current_setting('DateStyle'),
			current_setting('IntervalStyle'), current_setting('bytea_output'), current_setting('extra_float_digits'),
			current_setting('standard_conforming_strings'))`
		if _, err := tx.Exec(t.Context(), `SET LOCAL TimeZone = 'Pacific/Chatham'; SET LOCAL DateStyle = 'SQL, DMY';
			SET LOCAL IntervalStyle = iso_8601; SET LOCAL bytea_output = escape; SET LOCAL extra_float_digits = -15;
			SET LOCAL standard_conforming_strings = off`,
			pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		look := func() (s string) {
			if err := tx.QueryRow(t.Context(), formats).Scan(&s); err != nil {
				t.Fatal(err)
			}
			return s
		}
		before := look()
		for i := range 2 {
			e := event.Event{Type: "sold", OccurredAt: time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC)}
			places, err := journal.Journal{}.Append(t.Context(), tx, fmt.Sprint("c", i), journal.Any, e)
			if err != nil {
				return err
			}
			if err := p.ApplyInline(t.Context(), tx, places...); err != nil {
				return err
			}
			if after := look(); after != before {
				t.Errorf("the formats were %s, after the call they are %s", before, after)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if said := query[string](t, pool, `SELECT string_agg(DISTINCT split_part(said, ' ', 1), ' ')
		FROM tidemark_views.campaigns`); said != "2026-03-01" {
		t.Errorf("the day is %s", said)
	}
}

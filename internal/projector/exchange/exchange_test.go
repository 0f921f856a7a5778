package exchange_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/exchange"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const made = `CREATE TABLE totals (id bigint GENERATED ALWAYS AS IDENTITY, campaign_id text PRIMARY KEY,
	sum bigint NOT NULL, name text);
	CREATE INDEX totals_sum ON totals (sum);
	CREATE TYPE mood AS ENUM ('good');
	CREATE SEQUENCE numbers;
	CREATE VIEW best AS SELECT campaign_id FROM totals WHERE sum > 10`

// begin creates tables with objects that users add, and replacements with the same names.
func begin(t *testing.T, added string) (pool *pgxpool.Pool, old, replacement exchange.Tables) {
	t.Helper()
	pool = pgtest.New(t)
	for _, schema := range []string{"old", "replacement"} {
		run(t, pool, `CREATE SCHEMA `+schema+`; SET search_path TO `+schema+`; `+
			made+`; INSERT INTO totals (campaign_id, sum) VALUES ('`+schema+`', 20); RESET search_path`)
	}
	old, replacement = exchange.Tables{Schema: "old", Names: []string{"totals"}},
		exchange.Tables{Schema: "replacement", Names: []string{"totals"}}
	var err error
	if old.Own, err = own(t, pool, old); err != nil {
		t.Fatal(err)
	}
	run(t, pool, added)
	return pool, old, replacement
}

// own returns the objects that tables were created with.
func own(t *testing.T, pool *pgxpool.Pool, tables exchange.Tables) (all []string, err error) {
	t.Helper()
	return all, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT set_config('search_path', $1, true)`, tables.Schema); err != nil {
			return err
		}
		all, err = exchange.Objects(t.Context(), tx, tables)
		return err
	})
}

func run(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func value(t *testing.T, pool *pgxpool.Pool, sql string) string {
	t.Helper()
	var v string
	if err := pool.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func swap(t *testing.T, pool *pgxpool.Pool, old, replacement exchange.Tables) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `CREATE SCHEMA attic; SET LOCAL search_path TO old,
			pg_catalog`, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		added, err := exchange.Added(t.Context(), tx, old, replacement)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), `SET LOCAL search_path TO replacement, old, pg_catalog`); err != nil {
			return err
		}
		for _, a := range added {
			if _, err := tx.Exec(t.Context(), a.SQL); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(t.Context(), `SET LOCAL search_path TO old, pg_catalog`); err != nil {
			return err
		}
		if again, err := exchange.Added(t.Context(), tx, old, replacement); err != nil || len(again) > 0 {
			return fmt.Errorf("added twice would be %v: %w", again, err)
		}
		return exchange.Swap(t.Context(), tx, old, replacement, "attic", "")
	})
}

// described lists what a user sees of the table old.totals, without its rows.
const described = `SELECT concat_ws(E'\n',
	(SELECT string_agg(indexdef, E'\n' ORDER BY indexdef) FROM pg_indexes WHERE schemaname = 'old'
		AND tablename = 'totals'),
	(SELECT string_agg(concat_ws(' ', conname, pg_get_constraintdef(oid), obj_description(oid)), E'\n' ORDER BY conname)
		FROM pg_constraint WHERE conrelid = 'old.totals'::regclass),
	(SELECT string_agg(concat_ws(' ', grantee, privilege_type, is_grantable), E'\n'
		ORDER BY table_name, grantee, privilege_type, is_grantable) FROM information_schema.table_privileges
		WHERE table_schema = 'old' AND table_name IN ('totals', 'best')),
	(SELECT string_agg(concat_ws(' ', grantee, column_name, privilege_type), E'\n'
		ORDER BY grantee, column_name, privilege_type) FROM information_schema.column_privileges WHERE table_schema = 'old'
		AND table_name = 'totals'),
	(SELECT string_agg(concat_ws(' ', policyname, permissive, roles, cmd, qual, with_check), E'\n' ORDER BY policyname)
		FROM pg_policies WHERE schemaname = 'old'),
	(SELECT concat_ws(' ', relrowsecurity, relforcerowsecurity, reloptions, relowner::regrole, obj_description(oid))
		FROM pg_class WHERE oid = 'old.totals'::regclass),
	(SELECT string_agg(col_description(attrelid, attnum), ' ') FROM pg_attribute WHERE attrelid = 'old.totals'::regclass),
	(SELECT string_agg(pg_get_triggerdef(oid) || tgenabled::text, E'\n' ORDER BY tgname) FROM pg_trigger
		WHERE tgrelid = 'old.totals'::regclass AND NOT tgisinternal),
	(SELECT string_agg(concat_ws(' ', indexrelid::regclass, indisvalid, obj_description(indexrelid)), E'\n'
		ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = 'old.totals'::regclass),
	(SELECT string_agg(concat_ws(' ', relnamespace::regnamespace, relname, reloptions, obj_description(oid),
		pg_get_viewdef(oid)), E'\n' ORDER BY oid::regclass::text) FROM pg_class WHERE relkind = 'v'
		AND relnamespace IN ('old'::regnamespace, 'public'::regnamespace)),
	(SELECT string_agg(relname || relacl::text, ' ' ORDER BY relname) FROM pg_class WHERE relkind = 'S'
		AND relnamespace = 'old'::regnamespace))`

func TestWhatUsersHaveHungOnTheTablesComesAlong(t *testing.T) {
	t.Parallel()
	const role = "pg_monitor" // any existing role
	pool, old, replacement := begin(t, `
		CREATE TABLE campaigns (id text PRIMARY KEY); INSERT INTO campaigns VALUES ('old'), ('replacement');
		CREATE UNIQUE INDEX "odd Name" ON old.totals (lower(campaign_id)) WHERE sum > 0;
		ALTER TABLE old.totals ADD CONSTRAINT positive CHECK (sum > 0), ADD CONSTRAINT sole UNIQUE (sum, name),
			ADD CONSTRAINT apart EXCLUDE (sum WITH =), ADD CONSTRAINT known FOREIGN KEY (campaign_id) REFERENCES campaigns,
			SET (fillfactor = 70);
		GRANT SELECT ON old.totals TO
			`+role+` WITH GRANT OPTION; GRANT UPDATE (sum) ON old.totals TO PUBLIC; GRANT
			SELECT ON old.best TO `+role+`;
		GRANT USAGE ON SEQUENCE old.numbers, old.totals_id_seq TO `+role+`; GRANT DELETE ON replacement.totals TO `+role+`;
		COMMENT ON TABLE old.totals IS 'what''s summed'; COMMENT ON COLUMN old.totals.sum IS 'in pence';
		CREATE POLICY own ON old.totals AS RESTRICTIVE FOR SELECT TO `+role+` USING (campaign_id <> 'secret');
		CREATE POLICY new ON old.totals FOR INSERT WITH CHECK (sum < 100); CREATE POLICY "all" ON old.totals USING (true) WITH CHECK (sum < 1000);
		ALTER TABLE old.totals ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
		CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TRIGGER "On Write" AFTER INSERT ON old.totals FOR EACH ROW EXECUTE FUNCTION seen();
		CREATE VIEW tidemark_views.shown WITH (security_barrier = true) AS SELECT t.campaign_id, b.campaign_id AS best, t.sum FROM old.totals t LEFT JOIN old.best b USING (campaign_id);
		COMMENT ON VIEW tidemark_views.shown IS 'for all'; GRANT SELECT ON tidemark_views.shown TO `+role+`;
		CREATE VIEW tidemark_views.above AS SELECT sum FROM tidemark_views.shown;
		ALTER TABLE old.totals OWNER TO pg_signal_backend; ALTER VIEW old.best OWNER TO pg_signal_backend`)
	before := value(t, pool, described)
	// A failed CREATE INDEX CONCURRENTLY leaves an invalid index, which a swap does not copy.
	run(t, pool, `CREATE INDEX spoiled ON old.totals (name); UPDATE pg_index SET indisvalid = false
		WHERE indexrelid = 'old.spoiled'::regclass`)
	if err := swap(t, pool, old, replacement); err != nil {
		t.Fatal(err)
	}
	if after := value(t, pool, described); after != before {
		t.Errorf("it is\n%s\nwant\n%s", after, before)
	}
	for sql, want := range map[string]string{
		`SELECT string_agg(campaign_id, ' ') FROM old.totals`: "replacement",
		`SELECT string_agg(campaign_id, ' ') FROM old.best`:   "replacement",
		`SELECT string_agg(campaign_id || best, ' ')
			FROM tidemark_views.shown`: "replacementreplacement",
		`SELECT string_agg(campaign_id, ' ') FROM attic.totals`: "old",
		`SELECT string_agg(campaign_id, ' ') FROM attic.best`:   "old",
		`SELECT pg_get_serial_sequence('old.totals',
			'id')`: "old.totals_id_seq",
		`SELECT count(*)::text FROM pg_class WHERE relnamespace = 'replacement'::regnamespace`:             "0",
		`SELECT count(*)::text FROM pg_type WHERE typname = 'mood' AND typnamespace = 'old'::regnamespace`: "1",
	} {
		if got := value(t, pool, sql); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}

// TestWhatTheTablesHangOnEachOtherStaysAmongThem uses two tables. They have one foreign key of
// their own, one that a user has added, and nested views on both.
func TestWhatTheTablesHangOnEachOtherStaysAmongThem(t *testing.T) {
	t.Parallel()
	pool, old, replacement := begin(t, `
		CREATE TABLE old.parts (campaign_id text REFERENCES old.totals, name text UNIQUE, whole text); INSERT INTO old.parts
			VALUES ('old', 'a', NULL);
		CREATE TABLE replacement.parts (campaign_id text REFERENCES replacement.totals, name text UNIQUE,
			whole text); INSERT INTO replacement.parts VALUES ('replacement', 'a', NULL), ('replacement', 'b', 'a')`)
	old.Names, replacement.Names = []string{"totals", "parts"}, []string{"totals", "parts"}
	var err error
	if old.Own, err = own(t, pool, old); err != nil {
		t.Fatal(err)
	}
	run(t, pool, `
		ALTER TABLE old.parts ADD CONSTRAINT part_of FOREIGN KEY (whole) REFERENCES old.parts (name),
			ADD CONSTRAINT again FOREIGN KEY (campaign_id) REFERENCES old.totals;
		CREATE VIEW z_first AS SELECT p.name, t.campaign_id, t.sum FROM old.parts p JOIN old.totals t USING (campaign_id);
		CREATE VIEW m_second AS SELECT f.name, f.sum, b.campaign_id FROM z_first f JOIN old.best b USING (campaign_id);
		CREATE VIEW a_third AS SELECT s.name, s.sum, p.whole FROM m_second s JOIN old.parts p USING (name)`)
	if err := swap(t, pool, old, replacement); err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]string{
		`SELECT string_agg(concat_ws(' ', conname, confrelid::regclass), ', ' ORDER BY conname) FROM pg_constraint
			WHERE conrelid = 'old.parts'::regclass
			AND contype = 'f'`: "again old.totals, part_of old.parts, parts_campaign_id_fkey old.totals",
		`SELECT string_agg(concat_ws(' ', conname, confrelid::regclass), ', ' ORDER BY conname) FROM pg_constraint
			WHERE conrelid = 'attic.parts'::regclass
			AND contype = 'f'`: "again attic.totals, part_of attic.parts, parts_campaign_id_fkey attic.totals",
		`SELECT string_agg(concat_ws(' ', name, sum, whole), ', ' ORDER BY name)
			FROM a_third`: "a 20, b 20 a",
	} {
		if got := value(t, pool, sql); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}

func TestWhatCannotBeBroughtAlongIsNamed(t *testing.T) {
	t.Parallel()
	pool, old, replacement := begin(t, `
		CREATE MATERIALIZED VIEW kept AS SELECT sum FROM old.totals;
		CREATE TABLE notes (campaign_id text REFERENCES old.totals);
		CREATE FUNCTION total() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT sum(sum) FROM old.totals; END`)
	err := swap(t, pool, old, replacement)
	var blocked *exchange.BlockedError
	if !errors.As(err, &blocked) {
		t.Fatalf("swapped: %v", err)
	}
	for _, want := range []string{
		"constraint notes_campaign_id_fkey on table tidemark_views.notes, which stands on totals",
		"function tidemark_views.total(), which stands on totals",
		"rule _RETURN on materialized view tidemark_views.kept, which stands on totals",
	} {
		if !slices.Contains(blocked.By, want) {
			t.Errorf("%q is not among %q", want, blocked.By)
		}
	}
	run(t, pool, `DROP MATERIALIZED VIEW kept; DROP TABLE notes; DROP FUNCTION total; CREATE VIEW shown AS SELECT name
		FROM old.totals; ALTER TABLE replacement.totals DROP name`)
	if err := swap(t, pool, old, replacement); err == nil ||
		!strings.Contains(err.Error(),
			"view tidemark_views.shown cannot be created on the new tables, drop it or change it first") {
		t.Errorf("swapped under a view that misses a column: %v", err)
	}
}

// TestWhatTheOldTablesBroughtWithThemStaysWithThem uses replacements that were created without an
// index.
func TestWhatTheOldTablesBroughtWithThemStaysWithThem(t *testing.T) {
	t.Parallel()
	pool, old, replacement := begin(t, `DROP INDEX replacement.totals_sum; CREATE INDEX added ON old.totals (name)`)
	if err := swap(t, pool, old, replacement); err != nil {
		t.Fatal(err)
	}
	const want = "added totals_pkey"
	if got := value(t, pool, `SELECT string_agg(indexname, ' ' ORDER BY indexname) FROM pg_indexes
		WHERE schemaname = 'old'`); got != want {
		t.Errorf("the new tables have %s, want %s", got, want)
	}
}

// TestASchemaIsDroppedUnlessOthersStandOnIt first refers to a table from its own schema, and then
// from others.
func TestASchemaIsDroppedUnlessOthersStandOnIt(t *testing.T) {
	t.Parallel()
	pool, _, _ := begin(t, `CREATE TABLE replacement.parts (campaign_id text REFERENCES replacement.totals,
		mood replacement.mood)`)
	if err := exchange.Droppable(t.Context(), pool, "replacement"); err != nil {
		t.Errorf("what is in the schema itself: %v", err)
	}
	run(t, pool, `CREATE TABLE notes (campaign_id text REFERENCES replacement.totals); CREATE TABLE moods
		(mood replacement.mood)`)
	var guests *exchange.GuestsError
	if err := exchange.Droppable(t.Context(), pool, "replacement"); !errors.As(err, &guests) {
		t.Fatalf("droppable: %v", err)
	}
	if want := []string{"constraint notes_campaign_id_fkey on table notes", "table moods"}; !slices.Equal(guests.By,
		want) {
		t.Errorf("guests are %q, want %q", guests.By, want)
	}
}

// TestViewsAreLockedBeforeTheTables holds a lock on a view, as readers do before they lock its
// tables. A swap that locked the tables first and then waited for the view would deadlock with
// them.
func TestViewsAreLockedBeforeTheTables(t *testing.T) {
	t.Parallel()
	pool, old, replacement := begin(t, `CREATE VIEW shown AS SELECT sum FROM old.totals`)
	holder, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(t.Context()) }()
	if _, err := holder.Exec(t.Context(), `COMMENT ON VIEW shown IS 'held'`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- swap(t, pool, old, replacement) }()
	const waits = `SELECT count(*)::text FROM pg_locks WHERE relation = 'shown'::regclass AND NOT granted`
	for limit := time.Now().Add(3 * time.Minute); value(t, pool, waits) == "0"; {
		if time.Now().After(limit) {
			t.Fatal("nobody waits for the view")
		}
	}
	if n := value(t, pool, `SELECT count(*)::text FROM pg_locks WHERE relation = 'old.totals'::regclass
		AND mode = 'AccessExclusiveLock'`); n != "0" {
		t.Error("the table is locked, and the view is not")
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

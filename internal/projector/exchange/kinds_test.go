package exchange_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/exchange"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// kinds holds DDL of a projection for each kind of object in a schema, and what a swap keeps of it.
var kinds = map[string]struct{ made, added, look, want string }{ //nolint:gochecknoglobals // a table of cases
	"domain with a check": {
		made: `CREATE DOMAIN pence AS bigint DEFAULT 7 CONSTRAINT positive CHECK (VALUE >= 0);
			CREATE TABLE totals (id int, sum pence)`,
		added: `COMMENT ON DOMAIN old.pence IS 'in pence'; COMMENT ON CONSTRAINT positive ON DOMAIN old.pence IS 'no debts';
			REVOKE USAGE ON TYPE old.pence FROM PUBLIC; GRANT USAGE ON TYPE old.pence TO pg_monitor`,
		look: `SELECT concat_ws(' ', obj_description('old.pence'::regtype, 'pg_type'), obj_description(oid, 'pg_constraint'),
			has_type_privilege('pg_monitor', 'old.pence', 'USAGE'),
			has_type_privilege('pg_read_all_stats', 'old.pence', 'USAGE'))
			FROM pg_constraint WHERE contypid = 'old.pence'::regtype AND contype = 'c'`,
		want: "in pence no debts t f",
	},
	"domain on a domain": {made: `CREATE DOMAIN a AS int CHECK (VALUE > 0); CREATE DOMAIN b AS a CHECK (VALUE < 9);
		CREATE TABLE totals (id int, sum b, more b[])`},
	"composite type": {made: `CREATE TYPE address AS (street text, town text); CREATE TABLE totals (id int, at address)`},
	"enum with a default": {made: `CREATE TYPE mood AS ENUM ('good', 'bad');
		CREATE TABLE totals (id int, mood mood DEFAULT 'good')`},
	"range": {made: `CREATE TYPE span AS RANGE (subtype = float8); CREATE TABLE totals (id int, span span,
		all_of span_multirange)`},
	"function": {
		made: `CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2 * n';
			CREATE TABLE totals (id int, sum int DEFAULT twice(4) CHECK (twice(sum) > 0),
			two int GENERATED ALWAYS AS (twice(id)) STORED);
			CREATE INDEX twices ON totals (twice(id))`,
		added: `COMMENT ON FUNCTION old.twice(int) IS 'doubles'; COMMENT ON INDEX old.twices IS 'the doubled';
			REVOKE EXECUTE ON FUNCTION old.twice(int) FROM PUBLIC; GRANT EXECUTE ON FUNCTION old.twice(int) TO pg_monitor`,
		look: `SELECT concat_ws(' ', obj_description('old.twice(int)'::regprocedure, 'pg_proc'),
			obj_description('old.twices'::regclass, 'pg_class'),
			has_function_privilege('pg_monitor', 'old.twice(int)', 'EXECUTE'),
			has_function_privilege('pg_read_all_stats', 'old.twice(int)', 'EXECUTE'))`,
		want: "doubles the doubled t f",
	},
	"function of a domain": {made: `CREATE DOMAIN pence AS bigint CHECK (VALUE >= 0);
		CREATE TABLE totals (id int, sum pence);
		CREATE FUNCTION pounds(p pence) RETURNS numeric LANGUAGE sql AS 'SELECT p / 100.0'`},
	"procedure": {made: `CREATE PROCEDURE tidy() LANGUAGE sql AS ''; CREATE TABLE totals (id int)`},
	"aggregate": {made: `CREATE AGGREGATE most(int) (sfunc = int4larger, stype = int); CREATE TABLE totals (id int)`},
	"operator": {made: `CREATE FUNCTION near(a int, b int) RETURNS boolean
			LANGUAGE sql IMMUTABLE AS 'SELECT abs(a - b) < 2';
		CREATE OPERATOR ~~~ (leftarg = int, rightarg = int, function = near);
		CREATE TABLE totals (id int CHECK (id OPERATOR(~~~) id))`},
	"operator class": {made: `CREATE FUNCTION backwards(a int, b int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT b - a';
		CREATE OPERATOR CLASS downwards FOR TYPE int USING btree AS OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=,
		OPERATOR 5 <, FUNCTION 1 backwards(int, int);
		CREATE TABLE totals (id int); CREATE INDEX down ON totals (id downwards)`},
	"collation": {made: `CREATE COLLATION plain (locale = 'C'); CREATE TABLE totals (id text COLLATE plain)`},
	"text search": {made: `CREATE TEXT SEARCH CONFIGURATION words (COPY = simple);
		CREATE TABLE totals (id text, words tsvector)`},
	"sequence": {made: `CREATE SEQUENCE numbers; CREATE DOMAIN numbered AS bigint DEFAULT nextval('numbers');
		CREATE TABLE totals (id numbered DEFAULT nextval('numbers'))`},
	"trigger": {
		made: `CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
			CREATE TABLE totals (id int);
			CREATE TRIGGER seen BEFORE INSERT ON totals FOR EACH ROW EXECUTE FUNCTION seen();
			CREATE STATISTICS pairs ON (id + 1) FROM totals; CREATE POLICY mine ON totals USING (true)`,
		added: `COMMENT ON TRIGGER seen ON old.totals IS 'sees'; COMMENT ON POLICY mine ON old.totals IS 'all';
			COMMENT ON STATISTICS old.pairs IS 'one more'; ALTER TABLE old.totals ADD CONSTRAINT few CHECK (id < 9);
			COMMENT ON CONSTRAINT few ON old.totals IS 'under nine'`,
		look: `SELECT string_agg(description, ', ' ORDER BY description) FROM pg_description
			WHERE description IN ('sees', 'all', 'one more', 'under nine')`,
		want: "all, one more, sees, under nine",
	},
	"default privileges for a new table": {
		made: `CREATE TABLE totals (id int)`,
		added: `ALTER DEFAULT PRIVILEGES IN SCHEMA old GRANT SELECT ON TABLES TO pg_monitor;
			CREATE TABLE replacement.more (id int)`,
		look: `SELECT has_table_privilege('pg_monitor', 'old.more', 'SELECT')::text`, want: "true",
	},
}

func prepared(t *testing.T, made, added string) (pool *pgxpool.Pool, old, replacement exchange.Tables) {
	t.Helper()
	pool = pgtest.New(t)
	for _, schema := range []string{"old", "replacement"} {
		run(t, pool, `CREATE SCHEMA `+schema+`; SET search_path TO `+schema+`; `+made+`; RESET search_path`)
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

func TestEveryKindOfOwnObjectIsSwapped(t *testing.T) {
	t.Parallel()
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, old, replacement := prepared(t, k.made, k.added)
			if err := swap(t, pool, old, replacement); err != nil {
				t.Fatal(err)
			}
			run(t, pool, `DROP SCHEMA replacement`) // as a rebuild does: nothing is left there
			if err := exchange.Droppable(t.Context(), pool, "attic"); err != nil {
				t.Error(err)
			}
			run(t, pool, `DROP SCHEMA attic CASCADE; TABLE old.totals`)
			if k.look == "" {
				return
			}
			if got := value(t, pool, k.look); got != k.want {
				t.Errorf("kept is %q, want %q", got, k.want)
			}
		})
	}
}

// What a swap would lose is named before it.
func TestAnOwnTypeThatUsersHaveChangedIsNamed(t *testing.T) {
	t.Parallel()
	const made = `CREATE DOMAIN pence AS bigint CHECK (VALUE >= 0); CREATE TYPE mood AS ENUM ('good', 'bad');
		CREATE TABLE totals (id int, sum pence, mood mood)`
	for sql, want := range map[string]string{
		`ALTER DOMAIN old.pence ADD CONSTRAINT few CHECK (VALUE < 9)`: "type pence with " +
			"CHECK ((VALUE < 9)) CHECK ((VALUE >= 0))" + lost,
		`ALTER DOMAIN old.pence SET DEFAULT 3`:               "type pence with 3 CHECK ((VALUE >= 0))" + lost,
		`ALTER TYPE old.mood ADD VALUE 'so so' BEFORE 'bad'`: "type mood with good,so so,bad" + lost,
	} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			pool, old, replacement := prepared(t, made, sql)
			err := swap(t, pool, old, replacement)
			blocked, is := errors.AsType[*exchange.BlockedError](err)
			if !is || !slices.Contains(blocked.By, want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

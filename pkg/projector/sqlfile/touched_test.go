package sqlfile

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestAFileMakesNothingOutsideOfItsOwnSchema(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `CREATE SCHEMA others; CREATE TABLE others.kept (id text PRIMARY KEY, n integer);
		CREATE TYPE others.mood AS ENUM ('good'); CREATE FUNCTION others.noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
		pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	const refused = "s.sql:%d: it creates or changes %s: a file makes tables, indexes, types and functions of its own schema alone, named without one"
	for sql, want := range map[string]string{
		"CREATE TYPE mood AS ENUM ('good'); CREATE INDEX ON s (a)":                                    "",
		"CREATE DOMAIN short AS text; CREATE FUNCTION f(short) RETURNS text RETURN 'x'":               "",
		"ALTER TABLE s ADD FOREIGN KEY (a) REFERENCES others.kept":                                    "",
		"CREATE VIEW best AS SELECT max(k.n) AS n FROM others.kept k":                                 "",
		"CREATE TABLE big (a text, b bytea); CREATE SEQUENCE q":                                       "",
		"DO $$ BEGIN CREATE TABLE others.more (a text); END $$":                                       "relation others.more",
		"CREATE VIEW others.seen AS SELECT a FROM s":                                                  "relation others.seen",
		"CREATE SEQUENCE others.q":                                                                    "relation others.q",
		"CREATE INDEX by_n ON others.kept (n)":                                                        "relation others.by_n",
		"ALTER TABLE others.kept ADD COLUMN m integer":                                                "relation others.kept",
		"CREATE FUNCTION others.f() RETURNS integer RETURN 1":                                         "function others.f",
		"CREATE OR REPLACE FUNCTION others.noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'":   "function others.noted",
		"CREATE TYPE others.state AS ENUM ('on')":                                                     "type others.state",
		"CREATE DOMAIN others.short AS text":                                                          "type others.short",
		"CREATE OPERATOR others.=== (FUNCTION = pg_catalog.texteq, LEFTARG = text, RIGHTARG = text)":  "operator others.\"===\"",
		"CREATE TRIGGER spy AFTER INSERT ON others.kept FOR EACH ROW EXECUTE FUNCTION others.noted()": "trigger others.spy",
		"CREATE SCHEMA mine": "schema mine",
		"DO $$ BEGIN EXECUTE 'CREATE FUNCTION others.dynamic() RETURNS integer RETURN 1'; END $$": "function others.dynamic",
		// A block with EXCEPTION is a subtransaction.
		"DO $$ BEGIN CREATE FUNCTION others.caught() RETURNS integer RETURN 1; EXCEPTION WHEN OTHERS THEN NULL; END $$":                                                                   "function others.caught",
		"DO $$ BEGIN BEGIN CREATE SCHEMA nested; EXCEPTION WHEN OTHERS THEN NULL; END; EXCEPTION WHEN OTHERS THEN NULL; END $$":                                                           "schema nested",
		"DO $$ BEGIN CREATE TYPE others.kind AS ENUM ('a'); EXCEPTION WHEN OTHERS THEN NULL; END $$":                                                                                      "type others.kind",
		"DO $$ BEGIN CREATE TABLE others.caught (a text); EXCEPTION WHEN OTHERS THEN NULL; END $$":                                                                                        "relation others.caught",
		"DO $$ BEGIN CREATE FUNCTION others.undone() RETURNS integer RETURN 1; RAISE 'no'; EXCEPTION WHEN OTHERS THEN NULL; END $$":                                                       "",
		"DO $$ BEGIN CREATE FUNCTION own() RETURNS integer RETURN 1; EXCEPTION WHEN OTHERS THEN NULL; END $$":                                                                             "",
		`CREATE FUNCTION make() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CREATE FUNCTION others.made() RETURNS integer RETURN 1; EXCEPTION WHEN OTHERS THEN NULL; END $$; SELECT make()`: "function others.made",
	} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			projection, err := loadText("-- projection: s\n-- version: 1\nCREATE TABLE s (a text, campaign_id text);\n" + sql + ";\n-- on: x\nINSERT INTO s VALUES ('')")
			if err != nil {
				t.Fatal(err)
			}
			err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return projection.Check(t.Context(), tx) })
			if want == "" {
				assertMistakes(t, err, nil)
				return
			}
			assertMistakes(t, err, []string{fmt.Sprintf(refused, 4, want)})
		})
	}
}

// Objects that another session commits meanwhile do not belong to the file.
func TestWhatOthersMakeMeanwhileIsNotTheFiles(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	projection, err := loadText("-- projection: s\n-- version: 1\nCREATE TABLE s (a text, campaign_id text);\n-- on: x\nINSERT INTO s VALUES ('')")
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT pg_current_xact_id()"); err != nil {
			return err
		}
		if _, err := pool.Exec(t.Context(), "CREATE FUNCTION public.meanwhile() RETURNS integer LANGUAGE sql RETURN 1"); err != nil {
			return err
		}
		found, err := rows.All(t.Context(), tx, pgx.RowTo[string], "", queryTouched)
		if err == nil && len(found) > 0 {
			t.Errorf("found %q", found)
		}
		if err != nil {
			return err
		}
		return projection.Check(t.Context(), tx)
	})
	assertMistakes(t, err, nil)
}

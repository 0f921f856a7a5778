package exchange_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/exchange"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// ddl creates the tables of a projection, with every kind of object that a projection may create.
const ddl = `CREATE TYPE mood AS ENUM ('good', 'bad');
	CREATE TABLE totals (campaign_id text PRIMARY KEY, id bigint GENERATED ALWAYS AS IDENTITY, n serial,
		sum bigint NOT NULL DEFAULT 0, name text, feels mood, note text);
	CREATE TABLE parts (campaign_id text REFERENCES totals, part text, whole text, PRIMARY KEY (campaign_id, part));
	CREATE TABLE slices (campaign_id text, n integer, PRIMARY KEY (campaign_id, n)) PARTITION BY HASH (campaign_id);
	CREATE TABLE slices_0 PARTITION OF slices FOR VALUES WITH (MODULUS 2, REMAINDER 0);
	CREATE TABLE slices_1 PARTITION OF slices FOR VALUES WITH (MODULUS 2, REMAINDER 1);
	CREATE INDEX totals_sum ON totals (sum);
	CREATE STATISTICS ours ON sum, name FROM totals;
	CREATE VIEW best AS SELECT campaign_id, sum FROM totals WHERE sum > 10`

// hung holds every kind of object that users add to the tables.
const hung = `
	CREATE TABLE campaigns (id text PRIMARY KEY); INSERT INTO campaigns VALUES ('through'), ('replacement');
	CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
	ALTER TABLE old.totals ALTER name SET DEFAULT 'nobody', ALTER feels SET DEFAULT 'good', ALTER name SET NOT NULL,
		SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);

	CREATE INDEX partial ON old.totals (sum DESC NULLS LAST) INCLUDE (note) WITH (fillfactor = 80) WHERE sum > 0;
	CREATE UNIQUE INDEX "odd Name" ON old.totals (lower(campaign_id) text_pattern_ops,
		(sum + 1));
	CREATE INDEX of_slices ON old.slices (n);
	ALTER TABLE old.totals ADD CONSTRAINT positive CHECK (sum >= 0), ADD CONSTRAINT unsaid CHECK (note <> '') NOT VALID,
		ADD CONSTRAINT z_sole UNIQUE (sum, name) DEFERRABLE INITIALLY DEFERRED, ADD CONSTRAINT apart EXCLUDE (sum WITH =)
		WHERE (sum > 100),
		ADD CONSTRAINT known FOREIGN KEY (campaign_id) REFERENCES campaigns ON DELETE CASCADE,
			ADD CONSTRAINT z_noted UNIQUE (campaign_id, note);
	ALTER TABLE old.parts ADD CONSTRAINT a_noted FOREIGN KEY (campaign_id, whole) REFERENCES old.totals (campaign_id,
		note), ADD CONSTRAINT again FOREIGN KEY (campaign_id) REFERENCES old.totals NOT VALID;
	GRANT SELECT ON old.totals TO pg_monitor WITH GRANT OPTION; GRANT
		SELECT ON old.parts, old.slices TO PUBLIC; GRANT UPDATE (sum),
		SELECT (note) ON old.totals TO pg_read_all_stats; GRANT SELECT ON old.best TO pg_monitor;
	GRANT SELECT ON replacement.totals TO pg_monitor; GRANT DELETE ON replacement.parts TO pg_monitor; GRANT USAGE ON
		SEQUENCE old.totals_n_seq, old.totals_id_seq TO pg_monitor;

	CREATE POLICY own ON old.totals AS RESTRICTIVE FOR
		SELECT TO pg_monitor USING (EXISTS (SELECT FROM old.parts p WHERE p.campaign_id = totals.campaign_id));
	CREATE POLICY writes ON old.totals FOR INSERT WITH CHECK (sum < 100); ALTER TABLE old.totals ENABLE ROW LEVEL
		SECURITY, FORCE ROW LEVEL SECURITY;
	CREATE TRIGGER "On Write" AFTER UPDATE OF sum ON old.totals FOR EACH ROW
		WHEN (OLD.sum IS DISTINCT FROM NEW.sum) EXECUTE FUNCTION seen('with "words"');
	CREATE TRIGGER many AFTER INSERT ON old.totals REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION
		seen();
	CREATE CONSTRAINT TRIGGER late AFTER INSERT ON old.totals DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION
		seen();
	CREATE TRIGGER of_slices AFTER INSERT ON old.slices FOR EACH ROW EXECUTE FUNCTION seen();

	CREATE VIEW tidemark_views.shown WITH (security_barrier = true, check_option = local) AS SELECT t.campaign_id, t.sum
		FROM old.totals t WHERE t.sum > 0;
	CREATE VIEW tidemark_views.joined WITH (security_invoker = true) AS SELECT s.campaign_id, b.sum, p.part
		FROM tidemark_views.shown s JOIN old.best b USING (campaign_id) LEFT JOIN old.parts p USING (campaign_id);
	CREATE VIEW tidemark_views.whole AS SELECT j.sum, old.totals_n
		FROM tidemark_views.joined j, LATERAL (SELECT count(n) AS totals_n FROM old.totals) old;
	GRANT SELECT ON tidemark_views.shown, tidemark_views.whole TO pg_monitor; GRANT UPDATE (sum) ON tidemark_views.shown
		TO pg_monitor; ALTER VIEW old.best SET (security_barrier = true); ALTER VIEW tidemark_views.shown ALTER sum
		SET DEFAULT 7;

	COMMENT ON TABLE old.totals IS 'what''s summed'; COMMENT ON COLUMN old.totals.sum IS 'in pence';
	COMMENT ON SEQUENCE old.totals_n_seq IS 'numbers'; COMMENT ON VIEW tidemark_views.shown IS 'shown';
	COMMENT ON COLUMN tidemark_views.shown.sum IS 'shown sum'; COMMENT ON VIEW old.best IS 'the best';
	ALTER TABLE old.totals OWNER TO pg_signal_backend; ALTER TABLE old.parts OWNER TO pg_monitor; ALTER VIEW old.best
		OWNER TO pg_signal_backend`

// catalogue reads one line for each catalogue entry of relations in the schemas old and public. It
// leaves out numbers that differ by nature.
const catalogue = `WITH r AS (
		SELECT oid, oid::regclass AS name, relkind, relowner, relpersistence, relispartition, relreplident, relrowsecurity,
			relforcerowsecurity, relhasrules, relhastriggers, relacl, reloptions, reltoastrelid FROM pg_class c
			WHERE c.relnamespace IN ('old'::regnamespace, 'public'::regnamespace)
	)
	SELECT line FROM (
		SELECT concat_ws(' ', 'relation', name, relkind, relowner::regrole, relpersistence, relispartition, relreplident,
			relrowsecurity, relforcerowsecurity, relhasrules, relhastriggers,
			(SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(relacl) a
				WHERE a NOT IN (SELECT unnest(acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner)))),
			(SELECT string_agg(o, ' ' ORDER BY o) FROM unnest(reloptions) o),
				(SELECT 'toast ' || x.reloptions::text FROM pg_class x WHERE x.oid = r.reltoastrelid),
				obj_description(oid, 'pg_class')) FROM r
		UNION ALL SELECT concat_ws(' ', 'column', name, attname, format_type(atttypid, atttypmod), attnotnull, attidentity,
			attgenerated, attstorage, attcompression, attstattarget,
			(SELECT o FROM unnest(attoptions) o WHERE o LIKE 'n\_distinct%'), attacl,
			(SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = attrelid AND adnum = attnum),
				col_description(attrelid, attnum)) FROM r JOIN pg_attribute ON attrelid = oid AND attnum > 0 AND NOT attisdropped
		UNION ALL SELECT concat_ws(' ', 'index', pg_get_indexdef(indexrelid), indisvalid, indisclustered, indisreplident,
			indimmediate) FROM r JOIN pg_index ON indrelid = r.oid
		UNION ALL SELECT concat_ws(' ', 'constraint', name, conname, pg_get_constraintdef(k.oid), convalidated,
			obj_description(k.oid, 'pg_constraint')) FROM r JOIN pg_constraint k ON conrelid = r.oid
		UNION ALL SELECT concat_ws(' ', 'sequence', name, seqincrement, seqcache, seqmin, seqmax,
			pg_get_serial_sequence('old.totals', 'n') = name::text) FROM r JOIN pg_sequence ON seqrelid = r.oid
		UNION ALL SELECT concat_ws(' ', 'owned', d.objid::regclass, d.refobjid::regclass, d.refobjsubid, d.deptype)
			FROM pg_depend d JOIN r ON d.classid = 'pg_class'::regclass AND d.objid = r.oid
			AND d.refclassid = 'pg_class'::regclass AND relkind = 'S'
		UNION ALL SELECT concat_ws(' ', 'view', name, pg_get_viewdef(oid)) FROM r WHERE relkind = 'v'
		UNION ALL SELECT concat_ws(' ', 'rule', pg_get_ruledef(w.oid), ev_enabled, obj_description(w.oid, 'pg_rewrite'))
			FROM r JOIN pg_rewrite w ON ev_class = r.oid AND rulename <> '_RETURN'
		UNION ALL SELECT concat_ws(' ', 'trigger', pg_get_triggerdef(g.oid), tgenabled, tgparentid <> 0,
			obj_description(g.oid, 'pg_trigger')) FROM r JOIN pg_trigger g ON tgrelid = r.oid AND NOT tgisinternal
		UNION ALL SELECT concat_ws(' ', 'policy', name, polname, polcmd, polpermissive, polroles::regrole[],
			pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid), obj_description(y.oid, 'pg_policy')) FROM r
			JOIN pg_policy y ON polrelid = r.oid
		UNION ALL SELECT concat_ws(' ', 'statistics', name, pg_get_statisticsobjdef(x.oid), stxstattarget,
			obj_description(x.oid, 'pg_statistic_ext')) FROM r JOIN pg_statistic_ext x ON stxrelid = r.oid
		UNION ALL SELECT concat_ws(' ', 'type', typname, typnamespace::regnamespace) FROM pg_type WHERE typname = 'mood'
			AND typnamespace = 'old'::regnamespace
	) l (line) ORDER BY line COLLATE "C"`

// TestEveryKindOfThingThatUsersHangOnTablesComesAlong compares the catalogue before and after a
// swap.
func TestEveryKindOfThingThatUsersHangOnTablesComesAlong(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	names := []string{"totals", "parts", "slices", "slices_0", "slices_1"}
	old, replacement := exchange.Tables{Schema: "old", Names: names}, exchange.Tables{Schema: "replacement", Names: names}
	for _, schema := range []string{"old", "replacement"} {
		run(t, pool, `CREATE SCHEMA `+schema+`; SET search_path TO `+schema+`; `+ddl+`; RESET search_path`)
	}
	var err error
	if old.Own, err = own(t, pool, old); err != nil {
		t.Fatal(err)
	}
	run(t, pool, hung)
	lines := func() []string {
		t.Helper()
		var all []string
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `SET LOCAL search_path TO pg_catalog`); err != nil {
				return err
			}
			rows, err := tx.Query(t.Context(), catalogue)
			if err != nil {
				return err
			}
			all, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := lines()
	if err := swap(t, pool, old, replacement); err != nil {
		t.Fatal(err)
	}
	after := lines()
	for _, line := range before {
		if !slices.Contains(after, line) {
			t.Errorf("gone: %s", line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			t.Errorf("new: %s", line)
		}
	}
	// Nothing depends on the old tables any more, or remains in the schema of the new ones.
	if err := exchange.Droppable(t.Context(), pool, "attic"); err != nil {
		t.Error(err)
	}
	run(t, pool, `DROP SCHEMA replacement; DROP SCHEMA attic CASCADE`)
	if again := lines(); !slices.Equal(again, after) {
		t.Errorf("without the old tables it is\n%s\nwant\n%s", strings.Join(again, "\n"), strings.Join(after, "\n"))
	}
	run(t, pool, `INSERT INTO old.totals (campaign_id, sum) VALUES ('replacement', 20)`)
	if got := value(t, pool, `SELECT concat_ws(' ', campaign_id, n, sum, name, feels)
		FROM old.totals`); got != "replacement 1 20 nobody good" {
		t.Errorf("rows are %s", got)
	}
}

// lost ends the description of an object that the projection did not create and that a swap cannot
// keep.
const lost = ", which differs from what the projection made and would be lost"

// TestWhateverStandsOnTheTablesIsNamed covers each kind of object that a swap cannot keep.
func TestWhateverStandsOnTheTablesIsNamed(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		`CREATE MATERIALIZED VIEW kept AS SELECT sum
			FROM old.totals`: "rule _RETURN on materialized view tidemark_views.kept, which stands on totals",
		`CREATE MATERIALIZED VIEW kept AS SELECT campaign_id
			FROM old.best`: "rule _RETURN on materialized view tidemark_views.kept, which stands on best",
		`CREATE TABLE notes (campaign_id text REFERENCES
			old.totals)`: "constraint notes_campaign_id_fkey on table tidemark_views.notes, which stands on totals",
		`CREATE TABLE child () INHERITS
			(old.totals)`: "table tidemark_views.child, which stands on totals",
		`CREATE TABLE notes (total
			old.totals)`: "column total of table tidemark_views.notes, which stands on totals",
		`CREATE TABLE notes (totals
			old.totals[])`: "column totals of table tidemark_views.notes, which stands on totals",
		`CREATE TABLE notes (feels
			old.mood)`: "column feels of table tidemark_views.notes, which stands on mood",
		`CREATE TABLE notes (n bigint DEFAULT
			nextval('old.numbers'))`: "default value for column n of table tidemark_views.notes, which stands on numbers",
		`CREATE TABLE notes (n bigint DEFAULT
			nextval('old.totals_id_seq'))`: "default value for column n of table tidemark_views.notes, which stands on totals",
		`CREATE TABLE notes (id text); CREATE POLICY theirs ON notes USING (EXISTS (SELECT FROM old.totals t
			WHERE t.campaign_id = notes.id))`: "policy theirs on table tidemark_views.notes, which stands on totals",
		`CREATE FUNCTION total() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT sum(sum)
			FROM old.totals; END`: "function tidemark_views.total(), which stands on totals",
		`CREATE FUNCTION twice(old.totals) RETURNS bigint
			LANGUAGE sql AS 'SELECT 2 * $1.sum'`: "function tidemark_views.twice(totals), which stands on totals",
		`CREATE FUNCTION richest() RETURNS SETOF old.totals
			LANGUAGE sql AS 'SELECT * FROM old.totals'`: "function tidemark_views.richest(), which stands on totals",
		`CREATE PUBLICATION p FOR TABLE
			old.totals`: "publication of table totals in publication p, which stands on totals",
		`CREATE TABLE notes (id text); CREATE RULE copied AS ON INSERT TO notes DO ALSO UPDATE old.totals SET sum = 0
			WHERE campaign_id = NEW.id`: "rule copied on table tidemark_views.notes, which stands on totals",
		`CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER off AFTER INSERT
			ON old.totals FOR EACH ROW EXECUTE FUNCTION seen(); ALTER TABLE old.totals DISABLE
			TRIGGER off`: "trigger totals.off D" + lost,
		`ALTER TABLE old.totals ADD COLUMN note
			text`: "column totals.note text" + lost,
		`ALTER TABLE old.totals ALTER name TYPE
			varchar(20)`: "column totals.name character varying(20)" + lost,
		`ALTER TABLE old.totals ADD COLUMN twice bigint GENERATED ALWAYS AS (2 * sum) STORED`: "column totals.twice bigint" + lost,
		`ALTER TABLE old.totals ALTER name SET STORAGE EXTERNAL`:                              "column totals.name with e" + lost,
		`ALTER TABLE old.totals ALTER name SET STATISTICS 77`:                                 "column totals.name with 77" + lost,
		`ALTER TABLE old.totals SET UNLOGGED`:                                                 "table totals with unlogged" + lost,
		`ALTER TABLE old.totals REPLICA IDENTITY FULL`:                                        "table totals with replica identity f" + lost,
		`ALTER TABLE old.totals CLUSTER ON totals_sum`:                                        "index totals_sum with clustered" + lost,
		`ALTER INDEX old.totals_pkey SET (fillfactor = 60)`:                                   "index totals_pkey with {fillfactor=60}" + lost,
		`ALTER SEQUENCE old.totals_id_seq CACHE 10`:                                           "sequence totals_id_seq with 1 1 9223372036854775807 10 f" + lost,
		`CREATE SEQUENCE old.labels; ALTER SEQUENCE old.labels OWNED BY old.totals.name`:      "sequence labels with 1 1 9223372036854775807 1 f" + lost,
		`CREATE STATISTICS old.pairs ON sum, name FROM old.totals`:                            "statistics totals.pairs" + lost,
		`CREATE RULE idle AS ON DELETE TO old.totals DO INSTEAD NOTHING`:                      "rule totals.idle" + lost,
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			pool, old, replacement := begin(t, sql)
			err := swap(t, pool, old, replacement)
			var blocked *exchange.BlockedError
			if !errors.As(err, &blocked) {
				t.Fatalf("swapped: %v", err)
			}
			for i, by := range blocked.By {
				blocked.By[i] = strings.ReplaceAll(by, "table notes", "table tidemark_views.notes")
			}
			if !slices.Contains(blocked.By, want) {
				t.Errorf("%q is not among %q", want, blocked.By)
			}
		})
	}
}

package migrations_test

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/tidemark-go/tidemark/migrations"
)

// shipped is the last migration of the last release. Later migrations run while programs of that
// release are working. There is no release yet: the first one creates all tables.
const shipped = 6

// The rules for a migration that runs beside programs of the previous release
// (docs/guides/operations/upgrades.md).
var (
	waits    = regexp.MustCompile(`(?i)\b(ALTER TABLE|DROP INDEX|CREATE( UNIQUE)? INDEX|CREATE( OR REPLACE)?( CONSTRAINT)? TRIGGER|DROP TRIGGER|LOCK TABLE|REFRESH MATERIALIZED|TRUNCATE|CLUSTER|VACUUM FULL|REINDEX)\b`)
	timeouts = regexp.MustCompile(`(?i)\bSET (LOCAL )?lock_timeout\b`)
	building = regexp.MustCompile(`(?i)\bCREATE( UNIQUE)? INDEX\b`)
	breaks   = regexp.MustCompile(`(?i)\b(DROP TABLE|DROP COLUMN|DROP FUNCTION|DROP TYPE|DROP SEQUENCE|RENAME( COLUMN)?\b.* TO|ALTER COLUMN \S+ (SET DATA )?TYPE|SET NOT NULL|DROP VIEW)\b`)
	validate = regexp.MustCompile(`(?i)\bADD CONSTRAINT\b.*\b(CHECK|FOREIGN KEY)\b`)
	contract = regexp.MustCompile(`(?m)^-- contract: .+`)
	appends  = regexp.MustCompile(`(?i)CREATE (OR REPLACE )?FUNCTION tidemark\.(append|append_all|append_if|append_at|schedule|` +
		`cancel_scheduled|reschedule|fire_scheduled|react|await|applied)\(`)
)

// beside returns the faults of a migration's Up section that runs beside working programs.
func beside(up string) (faults []string) {
	bounded, contracts := false, contract.MatchString(up)
	made := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?i)CREATE TABLE( IF NOT EXISTS)? (\S+)`).FindAllStringSubmatch(up, -1) {
		made[m[2]] = true
	}
	if appends.MatchString(up) && !strings.Contains(up, "prosecdef") {
		faults = append(faults,
			"replaces a function that roles.sql has made SECURITY DEFINER, and takes that from it: look at prosecdef before, "+
				"and set it again")
	}
	body := false
	var statement strings.Builder
	for line := range strings.Lines(up) {
		if strings.HasPrefix(line, "-- +goose StatementBegin") || strings.HasPrefix(line, "-- +goose StatementEnd") {
			body = strings.Contains(line, "Begin") // of a function: it runs only when it is called
			continue
		}
		if body || strings.HasPrefix(strings.TrimSpace(line), "--") {
			continue
		}
		statement.WriteString(line)
		if !strings.Contains(line, ";") {
			continue
		}
		sql := strings.Join(strings.Fields(statement.String()), " ")
		statement.Reset()
		bounded = bounded || timeouts.MatchString(sql)
		own := slices.ContainsFunc(strings.FieldsFunc(sql, func(r rune) bool { return strings.ContainsRune(" (;,", r) }),
			func(word string) bool { return made[word] })
		switch {
		case breaks.MatchString(sql) && !contracts:
			faults = append(faults,
				"takes away or changes what the release before uses; if none does any more, say since when, with a line \"-- "+
					"contract: …\": "+sql)
		case own:
		case building.MatchString(sql) && !strings.Contains(strings.ToUpper(sql), "CONCURRENTLY"):
			faults = append(faults,
				"keeps writers out for as long as the index takes; make it CONCURRENTLY, under \"-- +goose NO TRANSACTION\": "+sql)
		case validate.MatchString(sql) && !strings.Contains(strings.ToUpper(sql), "NOT VALID"):
			faults = append(faults,
				"reads the whole table under its lock; add it NOT VALID and validate it in a later statement: "+sql)
		case waits.MatchString(sql) && !building.MatchString(sql) && !bounded:
			faults = append(faults,
				"waits for the table behind the longest transaction, and everybody waits behind it; begin with SET LOCAL "+
					"lock_timeout = '2s': "+sql)
		}
	}
	return faults
}

func TestMigrationsRunBesideTheReleaseBefore(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(migrations.FS, "*.sql")
	must(t, err)
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		must(t, err)
		content, err := fs.ReadFile(migrations.FS, name)
		must(t, err)
		up, _, _ := strings.Cut(string(content), "-- +goose Down")
		if version <= shipped {
			continue
		}
		for _, fault := range beside(up) {
			t.Errorf("%s %s", name, fault)
		}
	}
}

func TestWhatWouldDisturbTheReleaseBeforeIsFound(t *testing.T) {
	t.Parallel()
	const bounded = "SET LOCAL lock_timeout = '2s';\n"
	for _, sql := range []string{
		"ALTER TABLE tidemark.outbox ADD COLUMN x integer;",
		"ALTER TABLE tidemark.outbox\n    ADD COLUMN x integer;\n" + bounded, // too late
		bounded + "CREATE INDEX x ON tidemark.journal (actor);",
		bounded + "ALTER TABLE tidemark.journal DROP COLUMN actor;",
		bounded + "ALTER TABLE tidemark.journal RENAME COLUMN actor TO who;",
		bounded + "ALTER TABLE tidemark.journal ALTER COLUMN actor TYPE varchar;",
		bounded + "ALTER TABLE tidemark.journal ADD CONSTRAINT c CHECK (seq > 0);",
		"DROP FUNCTION tidemark.wake;",
		"DROP TABLE tidemark.parked;",
		"CREATE TRIGGER t BEFORE INSERT ON tidemark.journal FOR EACH ROW EXECUTE FUNCTION tidemark.refuse_change();",
		"CREATE OR REPLACE TRIGGER t BEFORE INSERT ON tidemark.journal FOR EACH ROW EXECUTE FUNCTION tidemark.refuse_change();",
		"VACUUM FULL tidemark.outbox;",
		"-- +goose StatementBegin\nCREATE OR REPLACE FUNCTION tidemark.applied(p_seqs bigint[]) RETURNS void LANGUAGE " +
			"sql AS $$ SELECT $$;\n-- +goose StatementEnd\n",
		"-- +goose StatementBegin\nCREATE OR REPLACE FUNCTION tidemark.append(p_campaign_id text) RETURNS void LANGUAGE " +
			"sql AS $$ SELECT $$;\n-- +goose StatementEnd\n",
	} {
		if len(beside(sql)) == 0 {
			t.Errorf("nothing is said of %q", sql)
		}
	}
	for _, sql := range []string{
		"CREATE TABLE tidemark.x (id bigint PRIMARY KEY);\nCREATE INDEX x_idx ON tidemark.x (id);\nALTER TABLE tidemark.x " +
			"SET (fillfactor = 50);",
		bounded + "ALTER TABLE tidemark.outbox ADD COLUMN x integer;",
		bounded + "ALTER TABLE tidemark.journal ADD CONSTRAINT c CHECK (seq > 0) NOT VALID;",
		"CREATE INDEX CONCURRENTLY x ON tidemark.journal (actor);",
		"-- contract: nobody reads it since 0.2\n" + bounded + "ALTER TABLE tidemark.journal DROP COLUMN actor;",
		"-- +goose StatementBegin\nCREATE OR REPLACE FUNCTION tidemark.f() RETURNS void LANGUAGE sql AS $$ TRUNCATE x; " +
			"$$;\n-- +goose StatementEnd\n",
		"-- ALTER TABLE is only talked of;\nSELECT 1;",
	} {
		if faults := beside(sql); len(faults) > 0 {
			t.Errorf("of %q it is said: %v", sql, faults)
		}
	}
}

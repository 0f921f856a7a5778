package migrations_test

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func status(t *testing.T, url string) []migrations.Migration {
	t.Helper()
	all, err := migrations.Status(t.Context(), url)
	must(t, err)
	return all
}

func newest(t *testing.T, url string) int64 {
	t.Helper()
	all := status(t, url)
	return all[len(all)-1].Version
}

func TestEachWayDownUndoesItsWayUp(t *testing.T) {
	t.Parallel()
	database := pgtest.Empty(t)
	must(t, migrations.Down(t.Context(), database, 0)) // creates goose's table
	below := catalogue(t, database)
	previous := int64(0)
	for _, step := range status(t, database) {
		must(t, migrations.UpTo(t.Context(), database, step.Version))
		above := catalogue(t, database)
		must(t, migrations.Down(t.Context(), database, previous))
		sameCatalogue(t, fmt.Sprintf("after %s went up and down", step.Name), catalogue(t, database), below)
		must(t, migrations.UpTo(t.Context(), database, step.Version))
		sameCatalogue(t, fmt.Sprintf("after %s went up, down and up", step.Name), catalogue(t, database), above)
		below, previous = above, step.Version
	}
}

func TestUpDownUpLeavesTheSameCatalogue(t *testing.T) {
	t.Parallel()
	database := pgtest.Empty(t)
	must(t, migrations.Up(t.Context(), database))
	before := catalogue(t, database)
	must(t, migrations.Down(t.Context(), database, 0))
	for _, line := range catalogue(t, database) {
		if strings.Contains(line, "tidemark") {
			t.Errorf("after the way down there is still: %s", line)
		}
	}
	must(t, migrations.Up(t.Context(), database))
	sameCatalogue(t, "after up, down, up", catalogue(t, database), before)
}

func TestSeveralUpsAtOnceApplyEachMigrationOnce(t *testing.T) {
	t.Parallel()
	database := pgtest.Empty(t)
	var group errgroup.Group
	for range 3 {
		group.Go(func() error { return migrations.Up(t.Context(), database) })
	}
	must(t, group.Wait())
	rows, err := connect(t, database).Query(t.Context(),
		"SELECT version_id FROM goose_db_version WHERE version_id > 0 ORDER BY id")
	must(t, err)
	applied, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	must(t, err)
	var want []int64
	for _, step := range status(t, database) {
		want = append(want, step.Version)
	}
	if !slices.Equal(applied, want) {
		t.Errorf("applied were %v, want %v", applied, want)
	}
}

func TestTheScriptMakesWhatUpMakes(t *testing.T) {
	t.Parallel()
	byUp, byScript := pgtest.Empty(t), pgtest.Empty(t)
	must(t, migrations.Up(t.Context(), byUp))
	middle := status(t, byUp)[1].Version
	for _, span := range [][2]int64{{0, middle}, {middle, 0}} {
		script, err := migrations.Script(span[0], span[1])
		must(t, err)
		_, err = connect(t, byScript).Exec(t.Context(), script)
		must(t, err)
	}
	sameCatalogue(t, "made by the script", catalogue(t, byScript), catalogue(t, byUp))
	must(t, migrations.Check(t.Context(), connect(t, byScript)))
	must(t, migrations.Up(t.Context(), byScript))
}

func TestAScriptForVersionsThatDoNotExistIsRefused(t *testing.T) {
	t.Parallel()
	for _, span := range [][2]int64{{-1, 1}, {2, 1}, {0, 1_000_000}} {
		if script, err := migrations.Script(span[0], span[1]); err == nil {
			t.Errorf("from %d to %d answers %d bytes", span[0], span[1], len(script))
		}
	}
}

func TestStatusTellsWhatIsAppliedAndChangesNothing(t *testing.T) {
	t.Parallel()
	database := pgtest.Empty(t)
	before := catalogue(t, database)
	for _, step := range status(t, database) {
		if step.AppliedAt != nil {
			t.Errorf("in an empty database %s is applied at %v", step.Name, step.AppliedAt)
		}
	}
	sameCatalogue(t, "after Status", catalogue(t, database), before)
	must(t, migrations.UpTo(t.Context(), database, 1))
	for _, step := range status(t, database) {
		if applied := step.AppliedAt != nil; applied != (step.Version == 1) {
			t.Errorf("with version 1 applied, %s says applied: %t", step.Name, applied)
		}
	}
}

func TestCheckComparesTheDatabaseWithTheProgram(t *testing.T) {
	t.Parallel()
	database := pgtest.Empty(t)
	conn := connect(t, database)
	program := newest(t, database)
	expect := func(version int64, remedy string) {
		t.Helper()
		err := migrations.Check(t.Context(), conn)
		var wrong *migrations.VersionError
		if !errors.As(err, &wrong) || wrong.Database != version || wrong.Program != program ||
			!strings.Contains(err.Error(), remedy) {
			t.Errorf("at version %d of %d Check answers: %v", version, program, err)
		}
	}
	expect(0, "migrate up")
	must(t, migrations.UpTo(t.Context(), database, 1))
	expect(1, "migrate up")
	must(t, migrations.Up(t.Context(), database))
	must(t, migrations.Check(t.Context(), conn))
	_, err := conn.Exec(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)", program+1)
	must(t, err)
	expect(program+1, "newer program")
	if all := status(t, database); all[len(all)-1].Version != program+1 || all[len(all)-1].Name != "" {
		t.Errorf("Status does not show the unknown version: %+v", all)
	}
}

func TestADatabaseInAnotherEncodingIsRefused(t *testing.T) {
	t.Parallel()
	home := pgtest.Empty(t)
	conn := connect(t, home)
	name := conn.Config().Database + "_latin1"
	_, err := conn.Exec(t.Context(), "CREATE DATABASE "+
		pgx.Identifier{name}.Sanitize()+" ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
	must(t, err)
	defer func() {
		_, err := conn.Exec(t.Context(), "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
		must(t, err)
	}()
	there, err := url.Parse(home)
	must(t, err)
	there.Path = "/" + name
	err = migrations.Up(t.Context(), there.String())
	if err == nil || !strings.Contains(err.Error(), "LATIN1") || !strings.Contains(err.Error(), "needs UTF8") {
		t.Errorf("Up answers: %v", err)
	}
}

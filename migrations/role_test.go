package migrations_test

import (
	"net/url"
	"os/exec"
	"testing"

	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// ownedByTidemark returns the address of an empty database for a role named like the schema. So the
// schema comes first in the role's search path.
func ownedByTidemark(t *testing.T) string {
	t.Helper()
	server := pgtest.Server(t)
	conn := connect(t, server.URL())
	for _, sql := range []string{
		"CREATE ROLE tidemark LOGIN",
		"CREATE DATABASE theirs OWNER tidemark TEMPLATE template0 ENCODING 'UTF8'",
	} {
		_, err := conn.Exec(t.Context(), sql)
		must(t, err)
	}
	u, err := url.Parse(server.URL())
	must(t, err)
	u.User, u.Path = url.User("tidemark"), "/theirs"
	return u.String()
}

func TestARoleNamedLikeTheSchemaMigratesAsOthersDo(t *testing.T) {
	t.Parallel()
	address, other := ownedByTidemark(t), pgtest.Empty(t)
	must(t, migrations.Up(t.Context(), other))
	must(t, migrations.UpTo(t.Context(), address, 3))
	must(t, migrations.Up(t.Context(), address))
	must(t, migrations.Up(t.Context(), address))
	conn := connect(t, address)
	must(t, migrations.Check(t.Context(), conn))
	var schemas []string
	must(t, conn.QueryRow(t.Context(),
		"SELECT array_agg(schemaname::text) FROM pg_tables WHERE tablename = 'goose_db_version'").Scan(&schemas))
	if len(schemas) != 1 || schemas[0] != "public" {
		t.Errorf("the versions are in %q, want public alone", schemas)
	}
	must(t, migrations.Down(t.Context(), address, 0))
	must(t, migrations.Up(t.Context(), address))
	if got, want := newest(t, address), newest(t, other); got != want {
		t.Errorf("after the way down and up the schema is at version %d, want %d", got, want)
	}
}

func TestTheGooseToolAndARoleNamedLikeTheSchema(t *testing.T) {
	t.Parallel()
	tool, address := gooseTool(t), ownedByTidemark(t)
	run := func(flags ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), tool,
			append(flags, "-dir", ".", "postgres", address, "up")...).CombinedOutput(); err != nil {
			t.Fatalf("goose up with %q: %v\n%s", flags, err, out)
		}
	}
	run() // creates its table in another schema
	must(t, migrations.Up(t.Context(), address))
	run("-table", "public.goose_db_version")
	must(t, migrations.Check(t.Context(), connect(t, address)))
}

package app

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// The worker has one pool, listeners of its own for projections and publishers, and the admin pools.
func TestAWorkerGoesOnWithARotatedPassword(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	if err := migrations.Up(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	super := connectTo(t, server.URL())
	file := filepath.Join(t.TempDir(), "pgpass")
	rotate := func(password string) {
		tally.Exec(t, super, "ALTER ROLE rotated PASSWORD '"+password+"'")
		if err := os.WriteFile(file, []byte("*:*:*:rotated:"+password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tally.Exec(t, super, "CREATE ROLE rotated LOGIN SUPERUSER")
	tally.Exec(t, super, `DO $$ BEGIN
		EXECUTE format('COPY (VALUES (''host all rotated all scram-sha-256''), (''host all all all trust'')) TO %L',
			current_setting('hba_file'));
		PERFORM pg_reload_conf();
	END $$`)
	rotate("first")
	address, err := url.Parse(pgtest.With(server.URL(), "passfile", file))
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.User("rotated")
	kind := publisher.Kind{Name: "memory", Open: func(publisher.Settings) (publisher.Sink, error) {
		return &memory.Sink{}, nil
	}}
	worker(t, connectTo(t, address.String()), Options{
		Sinks: []publisher.Kind{kind}, Projections: []projection.Projection{notes()},
	})
	sessions := func(listening bool) string {
		condition := "usename = 'rotated' AND pid <> pg_backend_pid()"
		if listening {
			condition += " AND query LIKE 'LISTEN %'"
		}
		return "SELECT count(*) FROM pg_stat_activity WHERE " + condition
	}
	tally.Eventually(t, "listening", tally.Holds(super, "SELECT 2 <= ("+sessions(true)+")"))
	rotate("second")
	tally.Exec(t, super, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotated'")
	appendEvents(t, super, "c", "noted")
	tally.Eventually(t, "the event after the rotation", tally.Holds(super, "SELECT EXISTS (TABLE tidemark_views.notes)"))
	tally.Eventually(t, "listening again", tally.Holds(super, "SELECT 2 <= ("+sessions(true)+")"))
}

package roles_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/migrations"
	scripts "github.com/tidemark-go/tidemark/migrations/roles"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// installation is a migrated database with its own roles.
type installation struct {
	prefix string
	url    string
	admin  *pgxpool.Pool // of a superuser
}

// install migrates as the owner if asOwner is set, otherwise as a superuser, and creates the roles.
func install(t *testing.T, asOwner bool) installation {
	t.Helper()
	in := empty(t)
	in.apply(t)
	migrate := in.url
	if asOwner {
		migrate = in.login(t, "owner")
	}
	must(t, migrations.Up(t.Context(), migrate))
	in.apply(t)
	return in
}

// empty returns a database without schema and roles.
func empty(t *testing.T) installation {
	t.Helper()
	in := installation{prefix: "tm_" + strings.ToLower(rand.Text()[:10])}
	var server string
	t.Cleanup(func() { // after the database is dropped, and with it the roles' privileges there
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close(ctx) }()
		rows, err := conn.Query(ctx, "SELECT rolname FROM pg_roles WHERE starts_with(rolname, $1) ORDER BY rolname DESC",
			in.prefix+"_")
		if err != nil {
			t.Error(err)
			return
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Error(err)
		}
		for _, name := range names {
			if _, err := conn.Exec(ctx, "DROP ROLE "+name); err != nil {
				t.Error(err)
			}
		}
	})
	in.url = pgtest.Empty(t)
	u, err := url.Parse(in.url)
	must(t, err)
	u.Path = "/postgres"
	server = u.String()
	in.admin = in.connect(t, in.url)
	return in
}

// apply runs roles.sql.
func (in installation) apply(t *testing.T) {
	t.Helper()
	in.script(t, scripts.Options{})
}

// script runs what tidemark migrate roles prints.
func (in installation) script(t *testing.T, o scripts.Options) {
	t.Helper()
	o.Prefix = in.prefix
	script, err := scripts.Script(o)
	must(t, err)
	_, err = in.admin.Exec(t.Context(), script, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
}

// login creates a login for a role, as docs/guides/operations/security.md describes, and returns
// its address.
func (in installation) login(t *testing.T, role string) string {
	t.Helper()
	name := in.prefix + "_" + role
	_, err := in.admin.Exec(t.Context(),
		fmt.Sprintf("CREATE ROLE %[1]s_login LOGIN PASSWORD 'secret' IN ROLE %[1]s; ALTER ROLE %[1]s_login SET role = "+
			"'%[1]s'", name), pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	u, err := url.Parse(in.url)
	must(t, err)
	u.User = url.UserPassword(name+"_login", "secret")
	return u.String()
}

func (in installation) connect(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), pgtest.UTF8(url))
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func (in installation) as(t *testing.T, role string) *pgxpool.Pool {
	t.Helper()
	return in.connect(t, in.login(t, role))
}

// refuses expects each statement to fail for lack of a privilege.
func refuses(t *testing.T, pool *pgxpool.Pool, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		_, err := pool.Exec(t.Context(), sql)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: want it refused for want of a privilege, got %v", sql, err)
		}
	}
}

func newEvent(name string) event.Event {
	return event.Event{Type: "hero_joined", AggregateID: name, Payload: []byte(`{"name": "` + name + `"}`)}
}

// fill appends two events as the superuser.
func (in installation) fill(t *testing.T) {
	t.Helper()
	must(t, pgx.BeginFunc(t.Context(), in.admin, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, "c", journal.Any, newEvent("ann"), newEvent("ben"))
		return err
	}))
}

package testdb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Kind is the settings of a program's test databases, names and values as ALTER DATABASE SET takes them.
type Kind struct {
	Settings [][2]string // of all
	Schema   [][2]string // of those that are migrated besides
}

// Template returns the name of the database to clone, on the server of admin.
type Template func(ctx context.Context, admin *pgx.Conn) (name string, err error)

// nothing is Postgres' own empty template.
const nothing = "template0"

// Empty is the template of empty databases.
func Empty(context.Context, *pgx.Conn) (string, error) { return nothing, nil }

// Database clones a template, drops the clone at the end of the test, and returns its URL.
func (k Kind) Database(t testing.TB, template Template) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), SetupTimeout)
	defer cancel()
	server, closeServer, err := Shared(ctx)
	if err != nil {
		t.Fatalf("no database for this test: %v", err)
	}
	url, drop, err := k.Make(ctx, server, template)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), SetupTimeout)
		defer cancel()
		if err := errors.Join(drop(ctx), closeServer()); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("make the test's database: %v", err)
	}
	return url
}

// Make clones a template on a server. drop drops the clone, or what there is of it; it is never nil.
func (k Kind) Make(
	ctx context.Context, server string, template Template,
) (url string, drop func(ctx context.Context) error, err error) {
	name := testName(time.Now())
	drop = func(ctx context.Context) error {
		return admins.use(ctx, server, func(admin *pgx.Conn) error { return dropWith(ctx, admin, name) })
	}
	return withDatabase(server, name), drop, k.create(ctx, server, name, template)
}

func (k Kind) create(ctx context.Context, server, name string, template Template) error {
	return admins.use(ctx, server, func(admin *pgx.Conn) error {
		source, err := template(ctx, admin)
		if err != nil {
			return fmt.Errorf("make the template: %w", err)
		}
		if err := clone(ctx, admin, name, source); err != nil {
			return err
		}
		settings := k.Settings
		if source != nothing {
			settings = append(slices.Clone(settings), k.Schema...)
		}
		return set(ctx, admin, name, settings)
	})
}

// clone copies a database file by file. That is a third of the work of copying through the log, the
// default since Postgres 15.
func clone(ctx context.Context, admin *pgx.Conn, name, source string) error {
	var strategy string
	digits, _, _ := strings.Cut(admin.PgConn().ParameterStatus("server_version"), ".")
	if major, err := strconv.Atoi(digits); err == nil && major >= 15 {
		strategy = " STRATEGY file_copy"
	}
	_, err := admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+
		" TEMPLATE "+pgx.Identifier{source}.Sanitize()+" ENCODING 'UTF8'"+strategy)
	return err
}

func dropWith(ctx context.Context, admin *pgx.Conn, name string) error {
	_, err := admin.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	return err
}

// withDatabase returns the server's URL with another database.
func withDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" { // keywords and values, where the last one wins
		return server + " dbname=" + name
	}
	u.Path = "/" + name
	return u.String()
}

// testName returns a unique name that includes the time, for prune.
func testName(now time.Time) string {
	return fmt.Sprintf("%s%d_%s", testPrefix, now.Unix(), strings.ToLower(rand.Text()[:12]))
}

// set gives a database settings. A clone does not have those of its template.
func set(ctx context.Context, admin *pgx.Conn, name string, settings [][2]string) error {
	var statements []string
	for _, setting := range settings {
		statements = append(statements, "ALTER DATABASE "+pgx.Identifier{name}.Sanitize()+" SET "+
			setting[0]+" = "+setting[1])
	}
	return admin.PgConn().Exec(ctx, strings.Join(statements, ";")).Close()
}

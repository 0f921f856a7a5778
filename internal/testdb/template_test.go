package testdb

import (
	"context"
	"strconv"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/devpg"
)

func admin(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// server starts a server for the test alone, and returns its URL.
func server(t *testing.T) string {
	t.Helper()
	server, err := devpg.Open(t.Context(), devpg.Config{Private: true, Settings: map[string]string{
		"shared_buffers": "32MB", "fsync": "off",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.URL()
}

func TestOldLeftoversArePrunedAndYoungOnesKept(t *testing.T) {
	t.Parallel()
	conn := admin(t, server(t))
	now := time.Now()
	ago := func(age time.Duration) string { return strconv.FormatInt(now.Add(-age).Unix(), 10) }
	for name, c := range map[string]struct {
		comment string
		kept    bool
	}{
		testName(now.Add(-2 * keepDatabases)): {"", false},
		testName(now.Add(-keepDatabases / 2)): {"", true},
		templatePrefix + "0a":                 {ago(2 * keepTemplates), false},
		templatePrefix + "0b":                 {ago(keepTemplates / 2), true},
		templatePrefix + "0c_making":          {"", false},
		"tidemark_of_a_user":                  {"", true},
		testPrefix + "of_a_user":              {"", true},
		templatePrefix + "of_a_user":          {ago(2 * keepTemplates), true},
	} {
		if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "COMMENT ON DATABASE "+name+" IS '"+c.comment+"'"); err != nil {
			t.Fatal(err)
		}
		if err := prune(t.Context(), conn, now); err != nil {
			t.Fatal(err)
		}
		if there, err := databaseExists(t.Context(), conn, name); err != nil || there != c.kept {
			t.Errorf("after prune %s is there: %t, want %t (%v)", name, there, c.kept, err)
		}
	}
}

func TestOneTemplateIsMadeHoweverManyAskAtOnce(t *testing.T) {
	t.Parallel()
	url := server(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	names := make([]string, 4)
	var group errgroup.Group
	for i := range names {
		conn := admin(t, url)
		group.Go(func() (err error) {
			names[i], err = Kind{}.Migrated(ctx, conn)
			if err == nil {
				err = clone(ctx, conn, testName(time.Now()), names[i])
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name != names[0] {
			t.Errorf("the templates are %v", names)
		}
	}
}

func TestTheHashOfASchemaFollowsNamesAndContents(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	seen := map[string]int{}
	for i, fsys := range []fstest.MapFS{
		{"1.sql": file("a"), "2.sql": file("b")},
		{"1.sql": file("ab"), "2.sql": file("")},
		{"1.sql": file("a"), "3.sql": file("b")},
		{"1.sql": file("a")},
	} {
		hash, err := Kind{}.schemaHash(fsys)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[hash]; ok {
			t.Errorf("schemas %d and %d have the same hash", other, i)
		}
		seen[hash] = i
	}
}

package testdb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/migrations"
)

const (
	testPrefix     = "tidemark_test_"
	templatePrefix = "tidemark_template_"
	// templateLock lets one process at a time create templates and prune.
	templateLock = 0x7D70
	// keepDatabases is the age at which a test database counts as left over from a killed run. go
	// test limits a run to ten minutes.
	keepDatabases = time.Hour
	// keepTemplates is the age at which the template of another schema is dropped. A server may
	// serve several branches.
	keepTemplates = 24 * time.Hour
)

// Migrated returns the name of the template with this schema, and creates it if it is missing.
func (k Kind) Migrated(ctx context.Context, admin *pgx.Conn) (name string, err error) {
	hash, err := k.schemaHash(migrations.FS)
	if err != nil {
		return "", err
	}
	name = templatePrefix + hash
	if there, err := databaseExists(ctx, admin, name); there || err != nil {
		return name, err
	}
	if _, err := admin.Exec(ctx, queryLock, templateLock); err != nil {
		return "", err
	}
	defer func() {
		_, unlockErr := admin.Exec(ctx, queryUnlock, templateLock)
		err = errors.Join(err, unlockErr)
	}()
	if there, err := databaseExists(ctx, admin, name); there || err != nil {
		return name, err
	}
	if err := prune(ctx, admin, time.Now()); err != nil {
		return "", err
	}
	return name, k.makeTemplate(ctx, admin, name)
}

// makeTemplate migrates under another name, then renames. So an existing template is always
// complete.
func (k Kind) makeTemplate(ctx context.Context, admin *pgx.Conn, name string) error {
	making := name + "_making"
	if err := dropWith(ctx, admin, making); err != nil {
		return err
	}
	if err := clone(ctx, admin, making, "template0"); err != nil {
		return err
	}
	if err := set(ctx, admin, making, k.Settings); err != nil {
		return err
	}
	if err := migrations.Up(ctx, withDatabase(admin.Config().ConnString(), making)); err != nil {
		return err
	}
	if err := makeReadModels(ctx, withDatabase(admin.Config().ConnString(), making)); err != nil {
		return err
	}
	made := strconv.FormatInt(time.Now().Unix(), 10)
	if _, err := admin.Exec(ctx, "COMMENT ON DATABASE "+pgx.Identifier{making}.Sanitize()+" IS '"+made+"'"); err != nil {
		return err
	}
	_, err := admin.Exec(ctx, "ALTER DATABASE "+pgx.Identifier{making}.Sanitize()+" RENAME TO "+
		pgx.Identifier{name}.Sanitize())
	return err
}

// readModels is the default schema of the projections' tables.
const readModels = "tidemark_views"

// makeReadModels creates the schema that the first worker would create, so that tests can use it
// earlier.
func makeReadModels(ctx context.Context, url string) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, "CREATE SCHEMA "+readModels)
	return err
}

// ours matches the names that this package gives. A user's server may have others with the same beginning.
var ours = regexp.MustCompile(`^(` + testPrefix + `[0-9]+_[a-z2-7]{12}|` + templatePrefix + `[0-9a-f]+(_making)?)$`)

// prune drops the databases of killed test runs, and templates that were not used recently.
func prune(ctx context.Context, admin *pgx.Conn, now time.Time) error {
	rows, err := admin.Query(ctx, queryDatabases, testPrefix, templatePrefix)
	if err != nil {
		return err
	}
	type candidate struct{ Name, Comment string }
	candidates, err := pgx.CollectRows(rows, pgx.RowToStructByPos[candidate])
	if err != nil {
		return err
	}
	for _, c := range candidates {
		if !ours.MatchString(c.Name) {
			continue
		}
		at, keep := c.Comment, keepTemplates
		if rest, ok := strings.CutPrefix(c.Name, testPrefix); ok {
			at, _, _ = strings.Cut(rest, "_")
			keep = keepDatabases
		}
		seconds, _ := strconv.ParseInt(at, 10, 64) // no time, so half-made: treat it as very old
		if now.Sub(time.Unix(seconds, 0)) < keep {
			continue
		}
		if err := dropWith(ctx, admin, c.Name); err != nil {
			return err
		}
	}
	return nil
}

func databaseExists(ctx context.Context, admin *pgx.Conn, name string) (there bool, err error) {
	err = admin.QueryRow(ctx, queryExists, name).Scan(&there)
	return there, err
}

// schemaHash returns a hash of the migrations' names and contents, and of the settings.
func (k Kind) schemaHash(fsys fs.FS) (string, error) {
	names, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return "", fmt.Errorf("list the migrations: %w", err)
	}
	hash := sha256.New()
	_, _ = fmt.Fprint(hash, readModels, k.Settings)
	for _, name := range names {
		content, err := fs.ReadFile(fsys, name)
		if err != nil {
			return "", fmt.Errorf("read the migrations: %w", err)
		}
		if _, err := fmt.Fprintf(hash, "%s %d\n%s", name, len(content), content); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil)[:8]), nil
}

package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"github.com/tidemark-go/tidemark/internal/session"
)

// Querier reads the schema's version. A pool, a connection and a transaction of pgx implement it.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Migration is one step of the schema.
type Migration struct {
	Version int64 `json:"version"`
	// Name is the file's name. It is empty for a version that the database has and this program
	// does not know.
	Name string `json:"name"`
	// AppliedAt is when the migration was applied, nil if it was not.
	AppliedAt *time.Time `json:"applied_at"`
}

// Status returns all migrations that this program or the database knows, in order. It changes
// nothing.
func Status(ctx context.Context, databaseURL string) (status []Migration, err error) {
	conn, err := session.Connect(ctx, databaseURL)
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	done, err := applied(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	all, err := known()
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	for _, step := range done {
		at, found := slices.BinarySearchFunc(all, step.Version, byVersion)
		if !found {
			all = slices.Insert(all, at, Migration{Version: step.Version})
		}
		all[at].AppliedAt = &step.AppliedAt
	}
	return all, nil
}

// VersionError reports that the database's schema is not the version that this program needs.
type VersionError struct {
	// Database is the version of the schema, 0 if there is none.
	Database int64
	// Program is the version that the program needs.
	Program int64
}

func (e *VersionError) Error() string {
	switch {
	case e.Database == 0:
		return fmt.Sprintf("the database has no Tidemark schema and this program needs version %d: run `tidemark migrate up`",
			e.Program)
	case e.Database < e.Program:
		return fmt.Sprintf("the database's schema is at version %d and this program needs %d: run `tidemark migrate up`",
			e.Database, e.Program)
	default:
		return fmt.Sprintf("the database's schema is at version %d and this program knows %d: use a newer program",
			e.Database, e.Program)
	}
}

// Newer reports whether the schema is ahead of the program. A worker keeps running with a newer
// schema: migrations leave everything that the previous release uses as it is
// (docs/guides/operations/upgrades.md).
func (e *VersionError) Newer() bool { return e.Database > e.Program }

// Check compares the schema's version with the program's. If they differ it returns a
// [*VersionError].
func Check(ctx context.Context, db Querier) error {
	all, err := known()
	if err != nil {
		return fmt.Errorf("check the schema's version: %w", err)
	}
	done, err := applied(ctx, db)
	if err != nil {
		return fmt.Errorf("check the schema's version: %w", err)
	}
	result := VersionError{Program: all[len(all)-1].Version}
	if len(done) > 0 {
		result.Database = done[len(done)-1].Version
	}
	if result.Database != result.Program {
		return &result
	}
	return nil
}

// known returns this program's migrations in order.
func known() ([]Migration, error) {
	names, err := fs.Glob(FS, "*.sql")
	if err != nil {
		return nil, err
	}
	var all []Migration
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", name, err)
		}
		all = append(all, Migration{Version: version, Name: name})
	}
	slices.SortFunc(all, func(a, b Migration) int { return byVersion(a, b.Version) })
	return all, nil
}

func byVersion(m Migration, version int64) int { return int(m.Version - version) }

const (
	// Takes no lock that conflicts with other sessions.
	hasVersions = `SELECT pg_catalog.to_regclass('` + versions + `') IS NOT NULL`
	hasJournal  = `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'tidemark' AND c.relname = 'journal')`
	// The table has a row for each migration, and one for version 0, which is none. Its time is
	// local to the session that wrote it.
	selectVersions = `
		SELECT version_id AS version, max(tstamp AT TIME ZONE current_setting('TimeZone')) AS applied_at
		FROM ` + versions + ` WHERE is_applied AND version_id > 0
		GROUP BY version_id ORDER BY version_id`
)

type appliedStep struct {
	Version   int64
	AppliedAt time.Time
}

// ErrUnversioned is returned for a database with Tidemark's schema and without its versions, such as
// one that was restored from a dump of the schema alone.
var ErrUnversioned = errors.New("the database has the schema tidemark, and " + versions +
	" does not say its version: a dump of the schema alone (pg_dump -n tidemark) leaves that table out. Copy it " +
	"from the same source, pg_dump -t " + versions + " SOURCE | psql TARGET; docs/guides/operations/backup.md says what " +
	"to do if the source is gone")

// applied returns the migrations that the database has, in order. It returns nothing if there are none,
// and [ErrUnversioned] if the schema is there all the same.
func applied(ctx context.Context, db Querier) (steps []appliedStep, err error) {
	// The schema first: a migration that commits in between writes its version too.
	journal, err := holds(ctx, db, hasJournal)
	if err != nil {
		return nil, err
	}
	there, err := holds(ctx, db, hasVersions)
	if err != nil {
		return nil, err
	}
	if there {
		rows, err := db.Query(ctx, selectVersions)
		if err != nil {
			return nil, err
		}
		if steps, err = pgx.CollectRows(rows, pgx.RowToStructByName[appliedStep]); err != nil {
			return nil, err
		}
	}
	if journal && len(steps) == 0 {
		return nil, ErrUnversioned
	}
	return steps, nil
}

func holds(ctx context.Context, db Querier, query string) (bool, error) {
	rows, err := db.Query(ctx, query)
	if err != nil {
		return false, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
}

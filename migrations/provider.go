package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/tidemark-go/tidemark/internal/session"
)

// lockSeconds is how long a migration waits for another one. The goose locker tries once a second,
// this many times.
const lockSeconds = 300

// Up migrates the database to the newest version that this program knows. It is safe to call
// concurrently: one call works, the others wait for it.
func Up(ctx context.Context, databaseURL string) error {
	return migrate(ctx, databaseURL, func(p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	})
}

// UpTo applies the pending migrations up to and including version.
func UpTo(ctx context.Context, databaseURL string, version int64) error {
	return migrate(ctx, databaseURL, func(p *goose.Provider) error {
		_, err := p.UpTo(ctx, version)
		return err
	})
}

// Down reverts all migrations above toVersion, newest first. 0 reverts everything, the journal
// included. It is for development: in production the schema only moves forward.
func Down(ctx context.Context, databaseURL string, toVersion int64) error {
	return migrate(ctx, databaseURL, func(p *goose.Provider) error {
		_, err := p.DownTo(ctx, toVersion)
		return err
	})
}

// migrate opens the database, calls work and closes the database.
func migrate(ctx context.Context, databaseURL string, work func(*goose.Provider) error) (err error) {
	cfg, err := session.Parse(databaseURL)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	session.Text(cfg.ConnConfig)
	db := stdlib.OpenDB(*cfg.ConnConfig, stdlib.OptionAfterConnect(setPath), stdlib.OptionBeforeConnect(cfg.BeforeConnect))
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := requireUTF8(ctx, db); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := requireVersions(ctx, db); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if _, err := db.ExecContext(ctx, ensureVersions); err != nil {
		return fmt.Errorf("migrate: create %s: %w", versions, err)
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, lockSeconds))
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, FS,
		goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true), goose.WithTableName(versions))
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := work(provider); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// versions is goose's version table. The schema is part of the name so that goose does not find a
// table of that name elsewhere.
const versions = "public.goose_db_version"

// ensureVersions creates the table before goose does. goose checks for the table before it takes
// its lock, so programs that start together would leave errors in the server's log. An error that a
// block catches is not logged.
const ensureVersions = `DO $$ BEGIN
	IF to_regclass('` + versions + `') IS NULL THEN
		` + createVersions + `
	END IF;
EXCEPTION WHEN unique_violation OR duplicate_table OR duplicate_object THEN -- by index, by table, by row type
	NULL; -- another program was quicker
END $$`

// setPath keeps migrations from running objects that others have created in the database's schemas.
func setPath(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SET search_path = pg_catalog, pg_temp")
	return err
}

// requireVersions refuses a database whose schema has lost its versions, before goose fails at the
// first object that exists.
func requireVersions(ctx context.Context, db *sql.DB) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return conn.Raw(func(driver any) error {
		_, err := applied(ctx, driver.(*stdlib.Conn).Conn())
		return err
	})
}

// requireUTF8 refuses a database with an encoding that cannot store an event's text, or would
// change it.
func requireUTF8(ctx context.Context, db *sql.DB) error {
	var database, encoding string
	const query = `SELECT current_database(), pg_encoding_to_char(encoding) FROM pg_database
		WHERE datname = current_database()`
	if err := db.QueryRowContext(ctx, query).Scan(&database, &encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("the database %q has the encoding %s and Tidemark needs UTF8: "+
			"make a new one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", database, encoding)
	}
	return nil
}

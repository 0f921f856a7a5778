// Package session opens database sessions for the programs of Tidemark.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// SearchPath leaves out every schema in which other roles may create functions and operators.
// Statements qualify all other names with a schema.
const SearchPath = "pg_catalog, pg_temp"

// Encoding pins the encoding of text, whatever the role, the database or the URL sets.
func Encoding(cfg *pgx.ConnConfig) { pin(cfg, "client_encoding", "UTF8") }

// Text pins the [Encoding], and how sessions read and write text, times and dates. PgBouncer tracks
// these parameters.
func Text(cfg *pgx.ConnConfig) {
	Encoding(cfg)
	pin(cfg, "timezone", "UTC")
	pin(cfg, "datestyle", "ISO, MDY")
	pin(cfg, "standard_conforming_strings", "on")
}

// untracked are the other settings of a session. PgBouncer refuses them.
func untracked() map[string]string {
	return map[string]string{
		"search_path": SearchPath, "intervalstyle": "postgres", "bytea_output": "hex", "extra_float_digits": "1",
	}
}

// pin sets a parameter in place of all spellings of its name.
func pin(cfg *pgx.ConnConfig, name, value string) {
	unpin(cfg, name)
	cfg.RuntimeParams[name] = value
}

func unpin(cfg *pgx.ConnConfig, name string) {
	maps.DeleteFunc(cfg.RuntimeParams, func(other, _ string) bool { return strings.EqualFold(other, name) })
}

// Direct pins all settings of sessions of the server itself. PgBouncer refuses some of them.
func Direct(cfg *pgx.ConnConfig) {
	Text(cfg)
	for name, value := range untracked() {
		pin(cfg, name, value)
	}
}

// hostTimeout is how long a session waits for one host, unless the URL has a connect_timeout.
const hostTimeout = 5 * time.Second

// Parse returns the settings of a pool for url, whose first and last white space does not count. Each
// host has a time-out of its own. Each new connection reads the password and the certificates again,
// so it has those of now.
func Parse(url string) (*pgxpool.Config, error) {
	url = strings.TrimSpace(url)
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.ConnectTimeout = cmp.Or(cfg.ConnConfig.ConnectTimeout, hostTimeout)
	cfg.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error {
		fresh, err := pgxpool.ParseConfig(url)
		if err != nil {
			return err
		}
		now := fresh.ConnConfig
		conn.Password, conn.TLSConfig, conn.Fallbacks = now.Password, now.TLSConfig, now.Fallbacks
		return nil
	}
	return cfg, nil
}

// Before adds before to what a pool does before each connection; nil adds nothing.
func Before(cfg *pgxpool.Config, before func(context.Context, *pgx.ConnConfig) error) {
	first := cfg.BeforeConnect
	if before == nil {
		return
	}
	cfg.BeforeConnect = func(ctx context.Context, conn *pgx.ConnConfig) error {
		if first != nil {
			if err := first(ctx, conn); err != nil {
				return err
			}
		}
		return before(ctx, conn)
	}
}

// Alone opens a connection as pool does, outside it. change may change its settings.
func Alone(ctx context.Context, pool *pgxpool.Pool, change func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	cfg := pool.Config()
	conn := cfg.ConnConfig
	conn.ConnectTimeout = cmp.Or(conn.ConnectTimeout, hostTimeout)
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, conn); err != nil {
			return nil, err
		}
	}
	change(conn)
	alone, err := pgx.ConnectConfig(ctx, conn)
	if err == nil && cfg.AfterConnect != nil {
		if err = cfg.AfterConnect(ctx, alone); err != nil {
			_ = alone.Close(ctx)
			return nil, err
		}
	}
	return alone, err
}

// Within is how long all hosts of cfg may take to connect and to answer.
func Within(cfg *pgx.ConnConfig) time.Duration {
	return time.Duration(len(cfg.Fallbacks)+2) * cmp.Or(cfg.ConnectTimeout, hostTimeout)
}

// Connect opens one connection with [Text].
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := Parse(url)
	if err != nil {
		return nil, err
	}
	Text(cfg.ConnConfig)
	return pgx.ConnectConfig(ctx, cfg.ConnConfig)
}

// Open opens a pool whose sessions have the settings of [Direct], whatever the URL sets, and checks
// that the database answers. Through PgBouncer, which refuses those, sessions have only [Text], and
// the search_path of their role. The caller closes the pool.
func Open(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	Prepare(cfg)
	Direct(cfg.ConnConfig)
	pool, err := open(ctx, cfg)
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if ok && refused.Code == "08P01" { // protocol violation: the startup parameter
		for name := range untracked() {
			unpin(cfg.ConnConfig, name)
		}
		return open(ctx, cfg)
	}
	return pool, err
}

func open(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// Prepare pins [Text], and sets the pool's connections to READ COMMITTED if the default is stricter:
// each statement must see what was committed before it. This costs a round trip a connection. Behind a
// pooler the default of the role must be changed instead; doctor and workers report it. A connection
// of another encoding all the same is refused with a [*event.EncodingError].
func Prepare(cfg *pgxpool.Config) {
	Text(cfg.ConnConfig)
	before := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		if err := feed.CheckEncoding(conn); err != nil {
			return err
		}
		if err := conn.PgConn().Exec(ctx, fmt.Sprintf(queryReadCommitted, conn.PgConn().PID())).Close(); err != nil {
			return fmt.Errorf("set the session's isolation: %w", err)
		}
		return nil
	}
}

// WithoutJIT runs read in a read-only transaction with JIT off. Unlike a connection parameter, this
// works through any pooler.
func WithoutJIT(ctx context.Context, pool *pgxpool.Pool, read func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, queryNoJIT); err != nil {
			return err
		}
		return read(tx)
	})
}

// Same reports whether two pools are of one database.
func Same(ctx context.Context, a, b *pgxpool.Pool) (bool, error) {
	var of [2]string
	for i, pool := range []*pgxpool.Pool{a, b} {
		if err := pool.QueryRow(ctx, queryDatabase).Scan(&of[i]); err != nil {
			return false, err
		}
	}
	return of[0] == of[1], nil
}

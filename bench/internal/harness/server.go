package harness

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const databasePrefix = "tidemark_bench_"

// Server is the Postgres server under test.
type Server struct {
	url   string
	admin *pgx.Conn
	stop  func() error
	made  int
}

// Database is a database for one run of one side.
type Database struct {
	Name string
	URL  string

	server *Server
}

// NewServer uses the server at databaseURL. Close calls stop.
func NewServer(ctx context.Context, databaseURL string, stop func() error) (*Server, error) {
	admin, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return nil, fmt.Errorf("connect to the server to measure on: %w", err)
	}
	return &Server{url: databaseURL, admin: admin, stop: stop}, nil
}

// Close closes the connection, and stops the server if it was started for this run.
func (s *Server) Close(ctx context.Context) error {
	if err := s.admin.Close(ctx); err != nil {
		return fmt.Errorf("close the connection to the server: %w", err)
	}
	return s.stop()
}

// Durable returns an error unless commits reach the disk. Figures would mean nothing otherwise.
func (s *Server) Durable(ctx context.Context) error {
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		if err := s.admin.QueryRow(ctx, "SELECT current_setting($1)", setting).Scan(&value); err != nil {
			return fmt.Errorf("read the setting %s: %w", setting, err)
		}
		if value != "on" {
			return fmt.Errorf("the server runs with %s = %s: measure on one with %s = on", setting, value, setting)
		}
	}
	return nil
}

// Version returns the server's version.
func (s *Server) Version(ctx context.Context) (string, error) {
	var version string
	if err := s.admin.QueryRow(ctx, "SELECT current_setting('server_version')").Scan(&version); err != nil {
		return "", fmt.Errorf("read the server's version: %w", err)
	}
	return version, nil
}

// DropLeftovers drops databases that an interrupted run left behind.
func (s *Server) DropLeftovers(ctx context.Context) error {
	rows, err := s.admin.Query(ctx, "SELECT datname FROM pg_database WHERE starts_with(datname, $1)", databasePrefix)
	if err != nil {
		return fmt.Errorf("look for databases of an earlier run: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for databases of an earlier run: %w", err)
	}
	for _, name := range names {
		if err := s.drop(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Create creates an empty database.
func (s *Server) Create(ctx context.Context) (*Database, error) { return s.Clone(ctx, "template0") }

// Clone copies the database template, which must have no connections, and flushes the copy to disk.
func (s *Server) Clone(ctx context.Context, template string) (*Database, error) {
	s.made++
	name := fmt.Sprintf("%s%d", databasePrefix, s.made)
	create := "CREATE DATABASE " + pgx.Identifier{name}.Sanitize() + " TEMPLATE " + pgx.Identifier{template}.Sanitize()
	if _, err := s.admin.Exec(ctx, create); err != nil {
		return nil, fmt.Errorf("clone database %s: %w", template, err)
	}
	if _, err := s.admin.Exec(ctx, "CHECKPOINT"); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return s.database(name)
}

// open returns a database, and creates it if it is not there.
func (s *Server) open(ctx context.Context, name string) (*Database, error) {
	var there bool
	err := s.admin.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&there)
	if err == nil && !there {
		_, err = s.admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE template0")
	}
	if err != nil {
		return nil, fmt.Errorf("create database %s: %w", name, err)
	}
	return s.database(name)
}

func (s *Server) database(name string) (*Database, error) {
	at, err := url.Parse(s.url)
	if err != nil {
		return nil, fmt.Errorf("parse the server's address: %w", err)
	}
	at.Path = "/" + name
	return &Database{Name: name, URL: at.String(), server: s}, nil
}

// Size returns the bytes of a database; 0: there is none.
func (s *Server) Size(ctx context.Context, name string) (bytes int, err error) {
	err = s.admin.QueryRow(ctx,
		"SELECT coalesce(sum(pg_database_size(oid)), 0)::bigint FROM pg_database WHERE datname = $1", name).Scan(&bytes)
	return bytes, err
}

// DataDirectory returns the folder of the server's data.
func (s *Server) DataDirectory(ctx context.Context) (dir string, err error) {
	if err := s.admin.QueryRow(ctx, "SELECT current_setting('data_directory')").Scan(&dir); err != nil {
		return "", fmt.Errorf("read the setting data_directory: %w", err)
	}
	return dir, nil
}

func (s *Server) drop(ctx context.Context, name string) error {
	if _, err := s.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+
		pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return nil
}

// Drop drops the database and ends its connections.
func (d *Database) Drop(ctx context.Context) error { return d.server.drop(ctx, d.Name) }

// searchPath finds the read models, and the tables of the compared systems.
const searchPath = "tidemark_views, public"

// Connect opens a connection. The caller closes it.
func (d *Database) Connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(d.URL)
	if err != nil {
		return nil, fmt.Errorf("parse the address of database %s: %w", d.Name, err)
	}
	config.RuntimeParams["search_path"] = searchPath
	return pgx.ConnectConfig(ctx, config)
}

// Pool opens a pool of the given number of connections, all of them open when it returns.
func (d *Database) Pool(ctx context.Context, connections int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(d.URL)
	if err != nil {
		return nil, fmt.Errorf("parse the address of database %s: %w", d.Name, err)
	}
	config.MinConns, config.MaxConns = int32(connections), int32(connections)
	config.ConnConfig.RuntimeParams["search_path"] = searchPath
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", d.Name, err)
	}
	// Open all connections before any timing starts.
	var held []*pgxpool.Conn
	for range connections {
		conn, acquireErr := pool.Acquire(ctx)
		if acquireErr != nil {
			err = acquireErr
			break
		}
		held = append(held, conn)
	}
	for _, conn := range held {
		conn.Release()
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open database %s: %w", d.Name, err)
	}
	return pool, nil
}

// Exec runs statements on a new connection.
func (d *Database) Exec(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, d.URL)
	if err != nil {
		return fmt.Errorf("open database %s: %w", d.Name, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			first, _, _ := strings.Cut(strings.TrimSpace(statement), "\n")
			return fmt.Errorf("%s: %w", first, err)
		}
	}
	return nil
}

// Settle runs VACUUM and CHECKPOINT, so that neither disturbs the timed part that follows.
func (d *Database) Settle(ctx context.Context) error {
	return d.Exec(ctx, "VACUUM ANALYZE", "CHECKPOINT")
}

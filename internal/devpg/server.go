package devpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// Mode is how a server stops.
type Mode string

const (
	// Fast ends all connections and writes a checkpoint.
	Fast Mode = "fast"
	// Immediate ends all processes at once; the next start recovers, as after a crash.
	Immediate Mode = "immediate"
)

// closeTimeout bounds Close: a stop and the wait for another process that is starting or stopping.
const closeTimeout = fastWithin + immediateWithin + startTimeout

// Server is one process's use of a running server.
type Server struct {
	cfg   Config
	log   *slog.Logger
	dir   string
	users *os.File // locked, shared, while open

	mu     sync.Mutex
	port   int
	closed bool
}

// Open connects to the state folder's server, starting it, and before that making it, when need be.
// It answers when the server takes connections and the database exists. Processes that race are put
// in a row. The caller closes the server.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))}
	var err error
	if s.dir, err = s.prepareState(ctx); err != nil {
		return nil, fmt.Errorf("open the private Postgres: %w", err)
	}
	err = s.locked(ctx, func() error {
		users, err := openLock(filepath.Join(s.dir, usersName))
		if err != nil {
			return err
		}
		// Only a Close asks for this lock exclusively, and it would hold the other lock.
		err = takeLock(ctx, users, syscall.LOCK_SH)
		if err == nil {
			err = s.use(ctx)
		}
		if err != nil {
			return errors.Join(err, users.Close())
		}
		s.users = users
		return nil
	})
	if err != nil {
		if s.temporary() {
			err = errors.Join(err, removeState(s.dir))
		}
		return nil, fmt.Errorf("open the private Postgres in %s: %w", s.dir, err)
	}
	return s, nil
}

// URL answers the address of the database, for pgx, psql and goose alike.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return databaseURL(s.port, Database)
}

// Close ends this use of the server; the last one to close stops it. Closing again does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.locked(ctx, func() error {
		alone, err := tryLock(s.users, syscall.LOCK_EX)
		if err == nil && (alone || s.cfg.Private) {
			err = s.stop(ctx, Fast)
		}
		return errors.Join(err, s.users.Close())
	})
	if err != nil {
		return fmt.Errorf("close the private Postgres in %s: %w", s.dir, err)
	}
	if s.temporary() {
		return removeState(s.dir)
	}
	return nil
}

// Stop ends the server for everybody who uses it and waits until it is gone. The use stays open: Start continues it.
func (s *Server) Stop(ctx context.Context, mode Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locked(ctx, func() error { return s.stop(ctx, mode) })
}

// Start runs the server again after Stop or a crash, on the same port unless a stranger took it.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locked(ctx, func() error { return s.use(ctx) })
}

// Restart is Stop followed by Start.
func (s *Server) Restart(ctx context.Context, mode Mode) error {
	if err := s.Stop(ctx, mode); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Log answers what the server has said since it was last started.
func (s *Server) Log() (string, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, logName))
	if err != nil {
		return "", fmt.Errorf("read the server's log: %w", err)
	}
	return string(text), nil
}

// locked runs do while no other process makes, starts or stops this cluster.
func (s *Server) locked(ctx context.Context, do func() error) error {
	lock, err := openLock(filepath.Join(s.dir, lockName))
	if err != nil {
		return err
	}
	err = takeLock(ctx, lock, syscall.LOCK_EX)
	if err == nil {
		err = do()
	}
	return errors.Join(err, lock.Close())
}

// use makes sure that the server runs and has the database, and notes its port.
func (s *Server) use(ctx context.Context) error {
	running, err := s.connectOrStart(ctx)
	if err != nil {
		return err
	}
	s.port = running.port
	return s.createDatabase(ctx)
}

func (s *Server) createDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, databaseURL(s.port, superuser))
	if err != nil {
		return fmt.Errorf("connect to the server: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var there bool
	if err := conn.QueryRow(ctx, queryThere, Database).Scan(&there); err != nil || there {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{Database}.Sanitize())
	return err
}

// urlEnv names the server to use instead of a private one.
const urlEnv = "TIDEMARK_DATABASE_URL"

// URL answers the database that a command works on: TIDEMARK_DATABASE_URL when it is set, else the
// checkout's private server, which is started for as long as the command needs it. The caller calls
// closeServer when it is done; it is never nil when err is nil. Only commands call URL: it reads
// the environment.
func URL(ctx context.Context, logger *slog.Logger) (url string, closeServer func() error, err error) {
	if url := os.Getenv(urlEnv); url != "" {
		return url, func() error { return nil }, nil
	}
	server, err := Open(ctx, Config{Logger: logger})
	if err != nil {
		return "", nil, err
	}
	return server.URL(), server.Close, nil
}

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

// Mode is a way to stop a server.
type Mode string

const (
	// Fast ends all connections and writes a checkpoint.
	Fast Mode = "fast"
	// Immediate ends all processes at once; the next start runs crash recovery.
	Immediate Mode = "immediate"
)

// closeTimeout is the limit of Close: a stop, and the wait for another process's start or stop.
const closeTimeout = fastWithin + immediateWithin + startTimeout

// Server is this process's use of a running server.
type Server struct {
	cfg   Config
	log   *slog.Logger
	dir   string
	users *os.File // locked, shared, while open

	mu     sync.Mutex
	port   int
	closed bool
}

// Open connects to the server of the state folder. It creates the cluster and starts the server if
// necessary, and returns when the server accepts connections and the database exists. Concurrent
// calls take turns. The caller closes the server.
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
		// Only Close takes this lock exclusively, and it then also holds the other lock.
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

// URL returns the database's URL for pgx, psql and goose.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return databaseURL(s.port, Database)
}

// Close ends this use of the server. The last user's Close stops it. Closing again does nothing.
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

// Stop stops the server for all its users and waits until it has ended. Start starts it again.
func (s *Server) Stop(ctx context.Context, mode Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locked(ctx, func() error { return s.stop(ctx, mode) })
}

// Start starts the server after Stop or a crash, on the same port unless another program took it.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locked(ctx, func() error { return s.use(ctx) })
}

// Restart calls Stop and Start.
func (s *Server) Restart(ctx context.Context, mode Mode) error {
	if err := s.Stop(ctx, mode); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Log returns the server's output since its last start.
func (s *Server) Log() (string, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, logName))
	if err != nil {
		return "", fmt.Errorf("read the server's log: %w", err)
	}
	return string(text), nil
}

// locked runs do while no other process creates, starts or stops the cluster.
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

// use ensures that the server runs and has the database, and stores its port.
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

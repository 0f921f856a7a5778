package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

type sink struct {
	cfg            Config
	table          string // quoted
	insert, create string
	created        atomic.Bool   // the table existed at its last use
	pool           *pgxpool.Pool // opens connections when it needs them
	gate           delivery.Gate
}

// New checks the configuration. It does not connect.
func New(cfg Config) (publisher.Sink, error) {
	poolConfig, table, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), poolConfig) // the pool lives until Close
	if err != nil {
		return nil, err
	}
	return &sink{
		cfg: cfg, table: table, pool: pool,
		insert: fmt.Sprintf(queryInsert, table), create: fmt.Sprintf(queryCreate, table, literal(table)),
	}, nil
}

// literal returns text as a string constant of SQL.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func (s *sink) Name() string { return s.cfg.Name }

// Publish inserts the events in one statement, or one by one if that refuses an event, to find it.
func (s *sink) Publish(ctx context.Context, events []publisher.Event) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	err := s.send(ctx, events)
	if !refused(err) {
		return explain(err, s.table)
	}
	return explain(s.oneByOne(ctx, events), s.table)
}

// Healthy reports whether the database accepts writes.
func (s *sink) Healthy(ctx context.Context) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	var readOnly bool
	if err := s.pool.QueryRow(ctx, queryReadOnly).Scan(&readOnly); err != nil {
		return err
	}
	if readOnly {
		return errors.New("the database is read-only: name the primary, as with target_session_attrs=read-write")
	}
	return nil
}

// Close waits for current inserts and closes the connections.
func (s *sink) Close() error {
	s.gate.Close()
	s.pool.Close()
	return nil
}

func (s *sink) oneByOne(ctx context.Context, events []publisher.Event) error {
	outcome := delivery.Of(events)
	for i := range events {
		if outcome.Behind(i) {
			continue
		}
		if err := s.send(ctx, events[i:i+1]); refused(err) {
			outcome.Fail(i, err, permanent(err))
		} else if err != nil {
			return err
		}
	}
	return outcome.Err()
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/internal/text"
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

// send inserts the events. It creates the table before its first insert, and when the table has gone.
func (s *sink) send(ctx context.Context, events []publisher.Event) error {
	args := s.columns(events)
	for {
		known := s.created.Load()
		if !known {
			if _, err := s.pool.Exec(ctx, s.create); err != nil {
				return err
			}
		}
		_, err := s.pool.Exec(ctx, s.insert, args...)
		s.created.Store(!is(err, undefinedTable))
		if !known || !is(err, undefinedTable) {
			return err
		}
	}
}

func (s *sink) columns(events []publisher.Event) []any {
	n := len(events)
	ids, topics, types, campaigns := make([]uuid.UUID, n), make([]string, n), make([]string, n), make([]string, n)
	seqs, positions, created := make([]int64, n), make([]int64, n), make([]time.Time, n)
	attributes, bodies := make([]string, n), make([]string, n)
	var attrs []publisher.Attribute
	var text []byte
	for i := range events {
		e := &events[i]
		ids[i], topics[i], types[i], campaigns[i] = e.ID, e.Topic, e.Type, e.CampaignID
		seqs[i], positions[i], created[i] = e.Seq, e.Position, e.RecordedAt
		attrs = s.cfg.Encoder.AppendAttributes(attrs[:0], e)
		text = appendObject(text[:0], attrs)
		attributes[i] = string(text)
		text = s.cfg.Encoder.AppendBody(text[:0], e)
		bodies[i] = string(text)
	}
	return []any{ids, topics, types, campaigns, seqs, positions, created, attributes, bodies}
}

func appendObject(b []byte, attrs []publisher.Attribute) []byte {
	b = append(b, '{')
	for i, a := range attrs {
		if i > 0 {
			b = append(b, ',')
		}
		b = text.AppendJSON(b, a.Name)
		b = append(b, ':')
		b = text.AppendJSON(b, a.Value)
	}
	return append(b, '}')
}

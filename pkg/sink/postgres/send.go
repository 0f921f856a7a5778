package postgres

import (
	"context"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/feed"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

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

// columns returns the insert's parameters.
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
		b = feed.AppendString(b, a.Name)
		b = append(b, ':')
		b = feed.AppendString(b, a.Value)
	}
	return append(b, '}')
}

package publications

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// ParkedFilter selects parked events. Empty fields match any.
type ParkedFilter struct {
	Topic, Publisher, CampaignID string
	Seq                          int64
	EventType                    string
	Status                       string // "parked", "retrying" or "draining"
	MessagePattern               string // of the error, a POSIX regular expression
	// only those after it, in the order of [ListParked]: the last one of the previous page
	After *Parked
	Limit int // default 100 for lists, all for acts
}

// Parked is a refused event, or the place of a campaign behind one.
type Parked struct {
	Topic         string
	Publisher     string
	CampaignID    string
	Seq           int64
	Holds         bool   // its campaign waits for it
	Position      int64  // the event's; for a draining campaign, that of the previous event
	Status        string // "retrying", "parked", "draining"
	Attempts      int
	NextAttemptAt time.Time
	EventID       *uuid.UUID
	EventType     string
	Message       string
	FirstFailedAt *time.Time
	LastFailedAt  *time.Time
}

// ParkedStatuses returns all statuses of parked events.
func ParkedStatuses() []string { return []string{"retrying", "parked", "draining"} }

func (f ParkedFilter) arguments(limit int) []any {
	if f.Limit > 0 {
		limit = f.Limit
	}
	args := []any{f.Topic, f.Publisher, f.CampaignID, f.Seq, f.EventType, f.Status, f.MessagePattern, limit}
	if f.After == nil {
		return append(args, pgtype.Timestamptz{}, "", "", "", int64(0))
	}
	since := pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	if at := f.After.FirstFailedAt; at != nil {
		since = pgtype.Timestamptz{Time: *at, Valid: true}
	}
	return append(args, since, f.After.Topic, f.After.Publisher, f.After.CampaignID, f.After.Seq)
}

// ListParked lists what is parked, oldest first.
func ListParked(ctx context.Context, db event.Querier, f ParkedFilter) ([]Parked, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Parked], "list parked events", queryListParked, f.arguments(100)...)
}

// CountParked counts the refused events that Retry or Resolve would change, not draining campaigns.
func CountParked(ctx context.Context, db event.Querier, f ParkedFilter) (n int64, err error) {
	return rows.One(ctx, db, pgx.RowTo[int64], "count parked events", queryCountParked, f.arguments(1<<31-1)...)
}

// Retry retries parked events at once, with all their attempts again, and returns their number. It
// skips rows that others are changing. It returns [ErrNotFound] if there are none.
func Retry(ctx context.Context, db DB, f ParkedFilter, act Act) (int64, error) {
	return actOnParked(ctx, db, f, act, ActRetried, queryRetry)
}

// Resolve skips parked events for good: their campaigns continue. It returns their number, as [Retry].
func Resolve(ctx context.Context, db DB, f ParkedFilter, act Act) (int64, error) {
	return actOnParked(ctx, db, f, act, ActResolved, queryResolve, queryResolveFree)
}

func actOnParked(
	ctx context.Context, db DB, f ParkedFilter, act Act, name string, queries ...string,
) (n int64, err error) {
	f.Limit = cmp.Or(f.Limit, math.MaxInt32)
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		parked, err := ListParked(ctx, tx, f)
		if err != nil {
			return err
		}
		events := slice.Of(parked, func(p Parked) ParkedKey {
			return ParkedKey{Key{p.Topic, p.Publisher}, p.CampaignID, p.Seq}
		})
		done, err := actOnKeys(ctx, tx, events, act, name, queries...)
		if n = int64(len(done)); err == nil && n == 0 {
			err = fmt.Errorf("no parked event is chosen: %w", ErrNotFound)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// ParkedPlace is a place in the order of [WalkParked].
type ParkedPlace struct {
	Topic, Publisher, CampaignID string
	Seq                          int64
	Holds                        bool
}

// Place returns the row's place in the order of [WalkParked].
func (p Parked) Place() ParkedPlace {
	return ParkedPlace{Topic: p.Topic, Publisher: p.Publisher, CampaignID: p.CampaignID, Seq: p.Seq, Holds: p.Holds}
}

// WalkParked reads the next look rows after a place (nil: from the first), in the order of topic,
// publisher, campaign and seq. It returns those that match, up to f.Limit (0: 100). Continue at
// end; nil: there are no more rows.
func WalkParked(
	ctx context.Context, db event.Querier, f ParkedFilter, after *ParkedPlace, look int,
) (parked []Parked, end *ParkedPlace, err error) {
	f.Limit = cmp.Or(f.Limit, 100)
	from := ParkedPlace{Topic: f.Topic, Publisher: f.Publisher}
	if after != nil {
		from = *after
	}
	looked := 0
	var p Parked
	var matches bool
	err = rows.Each(ctx, db, []any{
		&matches, &p.Topic, &p.Publisher, &p.CampaignID, &p.Seq, &p.Holds, &p.Position, &p.Status, &p.Attempts,
		&p.NextAttemptAt, &p.EventID, &p.EventType, &p.Message,
		&p.FirstFailedAt, &p.LastFailedAt,
	}, func() {
		if looked++; len(parked) == f.Limit {
			return
		}
		if end = new(p.Place()); matches {
			parked = append(parked, p)
		}
	}, "walk parked events", queryWalkParked, f.Topic, f.Publisher, f.CampaignID, f.EventType, f.Status, from.Topic,
		from.Publisher, from.CampaignID, from.Seq, from.Holds, look)
	if err != nil {
		return nil, nil, err
	}
	if looked < look && len(parked) < f.Limit {
		end = nil
	}
	return parked, end, nil
}

// ParkedKey names a parked event.
type ParkedKey struct {
	Key
	CampaignID string
	Seq        int64
}

// RetryKeys is [Retry] for the given events. It returns those that were parked.
func RetryKeys(ctx context.Context, tx pgx.Tx, events []ParkedKey, act Act) (map[ParkedKey]bool, error) {
	return actOnKeys(ctx, tx, events, act, ActRetried, queryRetry)
}

// ResolveKeys is [Resolve] for the given events. It returns those that were parked.
func ResolveKeys(ctx context.Context, tx pgx.Tx, events []ParkedKey, act Act) (map[ParkedKey]bool, error) {
	return actOnKeys(ctx, tx, events, act, ActResolved, queryResolve, queryResolveFree)
}

// actOnKeys locks the parked rows of events, runs queries for each, logs the act, and returns the events.
func actOnKeys(
	ctx context.Context, tx pgx.Tx, events []ParkedKey, act Act, name string, queries ...string,
) (map[ParkedKey]bool, error) {
	switch {
	case name == ActResolved && act.Reason == "":
		return nil, errors.New("a reason is missing: a resolved event is never published, so the log records why")
	case act.By == "":
		return nil, ErrNoActor
	}
	topics, publishers, campaigns, seqs := columns(events)
	done, batch := map[ParkedKey]bool{}, &pgx.Batch{}
	var e ParkedKey
	var holds bool
	err := rows.Each(ctx, tx, []any{&e.Topic, &e.Publisher, &e.CampaignID, &e.Seq, &holds}, func() {
		done[e] = true
		for _, q := range queries {
			batch.Queue(q, e.Topic, e.Publisher, e.CampaignID, e.Seq, holds)
		}
		batch.Queue(queryRecord, act.logged(name, e.Key, e.CampaignID, e.Seq, nil)...)
	}, "lock parked events", queryLockKeys, topics, publishers, campaigns, seqs)
	if err != nil || len(done) == 0 {
		return done, err
	}
	QueueNotify(batch)
	return done, tx.SendBatch(ctx, batch).Close()
}

func columns(events []ParkedKey) (topics, publishers, campaigns []string, seqs []int64) {
	for _, e := range events {
		topics, publishers = append(topics, e.Topic), append(publishers, e.Publisher)
		campaigns, seqs = append(campaigns, e.CampaignID), append(seqs, e.Seq)
	}
	return topics, publishers, campaigns, seqs
}

// CountOutcomes counts how many retried events were sent and how many were refused again.
func CountOutcomes(ctx context.Context, db event.Querier, events []ParkedKey) (sent, refused int64, err error) {
	topics, publishers, campaigns, seqs := columns(events)
	n, err := rows.One(ctx, db, pgx.RowToStructByPos[struct{ Sent, Refused int64 }],
		"count what became of parked events", queryOutcomes, topics, publishers, campaigns, seqs)
	return n.Sent, n.Refused, err
}

package inbox

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/marks"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// DefaultTTL is how long a mark lasts: 720 hours.
const DefaultTTL = 720 * time.Hour

const (
	ttlLeast = time.Second
	ttlMost  = 100 * 365 * 24 * time.Hour
)

// Option changes how an event is marked.
type Option func(*options)

type options struct{ ttl time.Duration }

// TTL sets how long the mark lasts, at least one second, instead of [DefaultTTL].
func TTL(d time.Duration) Option { return func(o *options) { o.ttl = d } }

// CheckAndMark reports whether the event is new to the consumer, and marks it in tx. Write the
// effects in the same transaction, and none if first is false. It waits for another transaction
// that is marking the same event. Under REPEATABLE READ and SERIALIZABLE it may fail with SQLSTATE
// 40001: retry the transaction.
//
// consumer is a name of up to 200 bytes. An event id is unique only within its campaign, so both
// are needed. For events of another sender, pass the sender's name as the campaign.
func CheckAndMark(
	ctx context.Context, tx journal.Tx, consumer, campaignID string, eventID uuid.UUID, opts ...Option,
) (first bool, err error) {
	ttl, err := check(consumer, campaignID, eventID, opts)
	if err != nil {
		return false, err
	}
	return mark(ctx, tx, consumer, campaignID, eventID, ttl)
}

// mark is CheckAndMark without checks. The campaign may be empty.
func mark(
	ctx context.Context, tx journal.Tx, consumer, campaignID string, eventID uuid.UUID, ttl time.Duration,
) (first bool, err error) {
	explain := func(err error) error {
		return fmt.Errorf("mark event %s of campaign %q for consumer %q: %w", eventID, campaignID, consumer, err)
	}
	found, err := rows.Ask(ctx, tx, queryMark, consumer, campaignID, eventID.String(), ttl.Microseconds())
	if err != nil {
		return false, explain(err)
	}
	first = found.Next()
	if err := cmp.Or(found.Err(), found.Close()); err != nil {
		return false, explain(err)
	}
	return first, nil
}

func check(consumer, campaignID string, eventID uuid.UUID, opts []Option) (time.Duration, error) {
	o := options{ttl: DefaultTTL}
	for _, option := range opts {
		option(&o)
	}
	if err := marks.Check(consumer, campaignID, eventID); err != nil {
		return 0, err
	}
	if o.ttl < ttlLeast || o.ttl > ttlMost {
		return 0, fmt.Errorf("the TTL of marks is %s, it must be %s to %s", o.ttl, ttlLeast, ttlMost)
	}
	return o.ttl, nil
}

// prune deletes up to limit expired marks, oldest first, and returns their number: fewer than limit
// if no more are left. Concurrent calls are safe.
func prune(ctx context.Context, db *pgxpool.Pool, limit int) (int64, error) {
	tag, err := db.Exec(ctx, queryPrune, limit)
	return tag.RowsAffected(), err
}

// Pruner deletes expired marks periodically. Any number of processes may run one.
type Pruner struct {
	DB       *pgxpool.Pool // required
	Interval time.Duration // between runs; default a minute
	Batch    int           // marks deleted by one statement; default 1000
	Logger   *slog.Logger  // logs failures; default none
}

// Run prunes until ctx ends, and then returns nil. It logs a failed statement and retries it at the
// next run. It returns an error only for invalid settings.
func (p Pruner) Run(ctx context.Context) error {
	p.Interval = cmp.Or(p.Interval, time.Minute)
	p.Batch = cmp.Or(p.Batch, 1000)
	p.Logger = cmp.Or(p.Logger, slog.New(slog.DiscardHandler))
	if p.DB == nil || p.Interval < 0 || p.Batch < 0 {
		return fmt.Errorf("prune the inbox: DB is required, Interval is %s and Batch %d, neither may be negative",
			p.Interval, p.Batch)
	}
	tick := time.NewTicker(p.Interval)
	defer tick.Stop()
	for {
		for full := true; full && ctx.Err() == nil; {
			n, err := prune(ctx, p.DB, p.Batch)
			if err != nil && ctx.Err() == nil {
				p.Logger.WarnContext(ctx, "cannot prune the inbox", "error", err)
			}
			full = n == int64(p.Batch)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

package pages

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// LongestRead is the longest time limit of a read that is repeated.
const LongestRead = time.Hour

// Longer returns the time limit of a read that repeats one with a limit that was too short.
func Longer(limit time.Duration) time.Duration { return min(limit*longerLimit, LongestRead) }

const (
	longerLimit  = 4
	smallestPart = 1 << 12 // of the events of a page
	mostPlaces   = 64
)

// Patience bounds the time of reads. When its limit has ended a read, the next one after the same position
// is of one event and has four times as long, up to an hour: an event of half a gigabyte may need it. Other
// reads are of one event too, then of twice as many each time. It is safe for concurrent use.
type Patience struct {
	base time.Duration

	mu    sync.Mutex
	ended map[int64]int // reads in a row that a limit has ended, by the position that they began after
	part  int           // reads are of one part in so many of their events
}

// NewPatience returns the patience of reads that normally have a time limit of base.
func NewPatience(base time.Duration) *Patience {
	return &Patience{base: base, ended: map[int64]int{}, part: 1}
}

// Next returns how many events the next read after a position is of, and its time limit. A page has events.
func (p *Patience) Next(after int64, events int) (most int, limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := p.ended[after]
	switch most = max(events/p.part, 1); {
	case ended > 0:
		return 1, p.limit(ended)
	case most == 1 && p.part > 1: // it may be the event that another read has met
		return 1, p.limit(1)
	}
	return most, p.base
}

// Longest returns the longest limit of a read that may be under way.
func (p *Patience) Longest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	longest := min(p.part-1, 1)
	for _, n := range p.ended {
		longest = max(longest, n)
	}
	return p.limit(longest)
}

// Repeats reports whether a limit of [Patience.Next] is that of a read that is repeated, or may have to be.
func (p *Patience) Repeats(limit time.Duration) bool { return limit > p.base }

func (p *Patience) limit(ended int) time.Duration {
	limit := p.base
	for ; ended > 0 && limit < LongestRead; ended-- {
		limit = Longer(limit)
	}
	return limit
}

// Done notes how a read after a position has ended. It reports whether its time limit ended it, or the
// session's statement_timeout.
func (p *Patience) Done(after int64, err error) (tooSlow bool) {
	const cancelled = "57014"
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(err, context.DeadlineExceeded) || feed.SQLState(err) == cancelled:
		if len(p.ended) >= mostPlaces { // of readers that have gone on elsewhere
			clear(p.ended)
		}
		p.ended[after]++
		p.part = smallestPart
		return true
	case err == nil && p.ended[after] > 0:
		delete(p.ended, after)
	case err == nil:
		p.part = max(p.part/2, 1)
	}
	return false
}

// SlowReadError is the error of a read that its time limit has ended.
type SlowReadError struct {
	After int64 // position
	Limit time.Duration
	Err   error
}

func (e *SlowReadError) Error() string {
	return fmt.Sprintf("the read of the journal after position %d was ended by its limit of %v%s: %v", e.After, e.Limit,
		Remedy(e.Limit), e.Err)
}

func (e *SlowReadError) Unwrap() error { return e.Err }

// Remedy tells what to do about a read that gets no more time.
func Remedy(limit time.Duration) string {
	if limit < LongestRead {
		return ""
	}
	return ", the longest there is (look for what slows down the server or the network)"
}

// DB is a pool, or a connection without a transaction.
type DB interface {
	lease.DB
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// ReadPage is [feed.ReadPage] with a time limit on the server; 0: that of the session. The limit of the session may
// be shorter: a read that is repeated because of it would be ended again.
func ReadPage(
	ctx context.Context, db DB, archive event.Archive, w event.Window, limit time.Duration,
) (page feed.Page, err error) {
	if limit == 0 {
		return feed.ReadPage(ctx, feed.Through{Querier: db, Archive: archive}, w)
	}
	read := func() error {
		return pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, queryTimeout, strconv.FormatInt(limit.Milliseconds(), 10))
			if err == nil {
				page, err = feed.ReadPage(ctx, feed.Through{Querier: tx, Archive: archive}, w)
			}
			return err
		})
	}
	if err = read(); feed.CannotRead(err) && !w.Careful { // it has ended the transaction
		w.Careful = true
		err = read()
	}
	return page, err
}

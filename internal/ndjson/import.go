package ndjson

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// LineError is a line that no event was made of.
type LineError struct {
	Number int64 // from 1
	Err    error // what is wrong with it
}

// Error names the line and what is wrong with it.
func (e *LineError) Error() string { return fmt.Sprintf("line %d %v", e.Number, e.Err) }

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// ImportConfig configures [Import].
type ImportConfig struct {
	Source string // names the input: part of the ids of lines that have none
	// called after each transaction: what was read, and appended or found, so far; may be nil
	Progress func(bytes, events int64)
}

// Imported is what an import did.
type Imported struct {
	Appended   int64
	Duplicates int64 // were in the journal already
}

// Import appends the events of in. Transactions of up to 1,000 lines follow one another in the
// order of the input, so an import that was interrupted has appended all up to some line and
// nothing beyond it; the next one finds that and goes on. It ends at the first bad line, a
// [*LineError], after everything before it.
//
// Import returns when ctx ends, even while in blocks. A goroutine then stays with in until its read
// returns.
func Import(ctx context.Context, pool *pgxpool.Pool, in io.Reader, cfg ImportConfig) (done Imported, err error) {
	if cfg.Progress == nil {
		cfg.Progress = func(int64, int64) {}
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	batches := make(chan batch)
	go readBatches(reading, in, cfg, batches)

	for {
		select {
		case <-ctx.Done():
			return done, ctx.Err()
		case b, more := <-batches:
			if !more { // before the end of the input: the reader has noticed first
				return done, ctx.Err()
			}
			if err := done.step(ctx, pool, b); err != nil {
				return done, err
			}
			cfg.Progress(b.bytes, done.Appended+done.Duplicates)
			if b.broken != nil || b.final {
				return done, b.broken
			}
		}
	}
}

// step appends the events of a batch in one transaction.
func (d *Imported) step(ctx context.Context, pool *pgxpool.Pool, b batch) error {
	after := *d
	var bad *LineError
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		bad, err = after.append(ctx, tx, b.entries)
		return err
	})
	if err != nil {
		return fmt.Errorf("append the lines up to %d: %w", b.last, err)
	}
	*d = after
	if bad != nil {
		return bad
	}
	return nil
}

// append appends entries in their order. Where one is refused, it halves them until it finds the
// first that is: those before it are appended. An append of events of which some are known is
// refused too, so this is also how a line finds its way past those that an earlier import with
// other lines has brought.
func (d *Imported) append(ctx context.Context, tx pgx.Tx, entries []entry) (bad *LineError, err error) {
	if len(entries) == 0 {
		return nil, nil
	}
	var places []journal.Appended
	err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		places, err = journal.AppendAll(ctx, savepoint, batches(entries)...)
		return err
	})
	switch {
	case err == nil:
		for _, place := range places {
			if place.Duplicate {
				d.Duplicates++
			} else {
				d.Appended++
			}
		}
		return nil, nil
	case refusal(err) == nil:
		return nil, err
	case len(entries) == 1:
		return &LineError{entries[0].number, refusal(err)}, nil
	}
	half := len(entries) / 2
	if bad, err := d.append(ctx, tx, entries[:half]); bad != nil || err != nil {
		return bad, err
	}
	return d.append(ctx, tx, entries[half:])
}

// batches puts neighbours of the same campaign together, which keeps the order of the entries in
// the whole journal.
func batches(entries []entry) []journal.Batch {
	var all []journal.Batch
	for _, e := range entries {
		if len(all) == 0 || all[len(all)-1].CampaignID != e.event.CampaignID {
			all = append(all, journal.Batch{CampaignID: e.event.CampaignID})
		}
		last := &all[len(all)-1]
		last.Events = append(last.Events, e.event)
	}
	return all
}

// refusal says about a line why an append refuses its event. It is nil where the append failed for the
// state of the database, not for what its events are.
func refusal(err error) error {
	if invalid, ok := errors.AsType[*journal.InvalidEventError](err); ok {
		return fmt.Errorf("is refused: %s %s", invalid.Field, invalid.Reason)
	}
	if errors.Is(err, journal.ErrEventIDReused) {
		return fmt.Errorf("is refused: %w", journal.ErrEventIDReused)
	}
	if errors.Is(err, journal.ErrPartlyAppended) {
		return err
	}
	const dataException, limitExceeded = "22", "54"
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if ok && (strings.HasPrefix(pgErr.Code, dataException) || strings.HasPrefix(pgErr.Code, limitExceeded)) {
		return fmt.Errorf("is refused by the database: %s", pgErr.Message)
	}
	return nil
}

package ndjson

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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

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
	Number int64  // from 1
	Text   []byte // the line, without its end; nil when it was too long to be held
	Err    error  // what is wrong with it
}

// Error names the line and what is wrong with it.
func (e *LineError) Error() string { return fmt.Sprintf("line %d %v", e.Number, e.Err) }

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// ImportConfig configures [Import].
type ImportConfig struct {
	Source string // names the input: part of the ids of lines that have none
	// called for each bad line, in order; an error ends the import; nil: the first bad line does
	Reject func(*LineError) error
	// called after each transaction: what was read, and appended or found, so far; may be nil
	Progress     func(bytes, events int64)
	MaxLineBytes int // longest line; default 8 MiB

	// ByCampaign keeps the order of the input within each campaign only, not in the whole journal.
	// Where campaigns alternate from line to line that is several times faster.
	ByCampaign bool
}

// Imported is what an import did.
type Imported struct {
	Appended   int64
	Duplicates int64 // were in the journal already
	Rejected   int64
}

// Import appends the events of in. Transactions of up to 1,000 lines follow one another in the
// order of the input, so an import that was interrupted has appended all up to some line and
// nothing beyond it; the next one finds that and goes on.
//
// Without [ImportConfig.Reject], everything before the first bad line is appended, and a
// [*LineError] returned.
//
// Import returns when ctx ends, even while in blocks. A goroutine then stays with in until its read
// returns.
func Import(ctx context.Context, pool *pgxpool.Pool, in io.Reader, cfg ImportConfig) (Imported, error) {
	if cfg.MaxLineBytes == 0 {
		cfg.MaxLineBytes = maxLineBytes
	}
	if cfg.Progress == nil {
		cfg.Progress = func(int64, int64) {}
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	batches := make(chan batch)
	go readBatches(reading, in, cfg, batches)

	i := &importer{cfg: cfg, pool: pool}
	for {
		select {
		case <-ctx.Done():
			return i.done, ctx.Err()
		case b, more := <-batches:
			if !more { // before the end of the input: the reader has noticed first
				return i.done, ctx.Err()
			}
			if err := i.step(ctx, b); err != nil || b.final {
				return i.done, err
			}
		}
	}
}

// importer is one import.
type importer struct {
	cfg  ImportConfig
	pool *pgxpool.Pool
	done Imported
}

// step appends the events of a batch in one transaction.
func (i *importer) step(ctx context.Context, b batch) error {
	a := appender{stop: i.cfg.Reject == nil, byCampaign: i.cfg.ByCampaign}
	if err := pgx.BeginFunc(ctx, i.pool, func(tx pgx.Tx) error {
		_, err := a.append(ctx, tx, b.good())
		return err
	}); err != nil {
		return fmt.Errorf("append the lines up to %d: %w", b.last, err)
	}
	i.done.Appended += a.appended
	i.done.Duplicates += a.duplicates
	for _, e := range b.entries {
		if e.bad == nil {
			continue
		}
		bad := &LineError{Number: e.number, Text: e.text, Err: e.bad}
		if i.cfg.Reject == nil {
			return bad
		}
		if err := i.cfg.Reject(bad); err != nil {
			return err
		}
		i.done.Rejected++
	}
	i.cfg.Progress(b.bytes, i.done.Appended+i.done.Duplicates)
	return b.broken
}

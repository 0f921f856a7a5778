package ndjson

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// LineError reports a line that has no valid event.
type LineError struct {
	Number int64 // from 1
	Err    error // why
}

// Error returns the line's number and what is wrong with it.
func (e *LineError) Error() string { return fmt.Sprintf("line %d %v", e.Number, e.Err) }

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// ImportConfig configures [Import].
type ImportConfig struct {
	Source string // name of the input: part of the derived ids
	// called after each transaction with the bytes read and the events appended or found; may be nil
	Progress func(bytes, events int64)
	// called when the session's statement_timeout allows fewer lines in a transaction than so far; may be nil
	Halved func(lines int)
}

// Imported is the result of an import.
type Imported struct {
	Appended   int64
	Duplicates int64 // already in the journal
}

// Import appends the events of in, in transactions of up to 1,000 lines in the order of the input.
// An interrupted import has therefore appended all lines up to some line and none after it; the next
// import continues from there. Import stops at the first bad line with a [*LineError], after
// appending everything before it.
//
// A transaction that the session's statement_timeout ends is repeated with half of its lines. If a
// single line is too much, the error is a [*LineError] that names the limit.
//
// Import returns when ctx ends, even while in blocks. A goroutine then keeps reading in until the
// blocked read returns.
func Import(ctx context.Context, pool *pgxpool.Pool, in io.Reader, cfg ImportConfig) (done Imported, err error) {
	if cfg.Progress == nil {
		cfg.Progress = func(int64, int64) {}
	}
	if cfg.Halved == nil {
		cfg.Halved = func(int) {}
	}
	w := window{most: batchLines, told: batchLines, halved: cfg.Halved}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	batches := make(chan batch)
	go readBatches(reading, in, cfg, batches)

	for {
		select {
		case <-ctx.Done():
			return done, ctx.Err()
		case b, more := <-batches:
			if !more { // the reader saw ctx end first
				return done, ctx.Err()
			}
			if err := done.step(ctx, pool, b, &w); err != nil {
				return done, err
			}
			cfg.Progress(b.bytes, done.Appended+done.Duplicates)
			if b.broken != nil || b.final {
				return done, b.broken
			}
		}
	}
}

// window is how many lines a transaction appends: fewer after a statement timeout, then slowly more again.
type window struct {
	most    int
	fitting int // transactions in a row that were not ended
	told    int // fewest lines so far
	halved  func(lines int)
}

const growAfter = 16 // transactions

func (w *window) fits() {
	if w.fitting++; w.fitting%growAfter == 0 {
		w.most = min(2*w.most, batchLines)
	}
}

func (w *window) halve(lines int) {
	w.most, w.fitting = max(lines/2, 1), 0
	if w.most < w.told {
		w.told = w.most
		w.halved(w.most)
	}
}

// step appends a batch, in one transaction or, if the session's statement_timeout is short, in several.
func (d *Imported) step(ctx context.Context, pool *pgxpool.Pool, b batch, w *window) error {
	for rest := b.entries; len(rest) > 0; {
		part := rest[:min(w.most, len(rest))]
		after := *d
		var bad *LineError
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
			bad, err = after.append(ctx, tx, part)
			return err
		})
		const cancelled = "57014"
		switch timedOut := feed.SQLState(err) == cancelled && ctx.Err() == nil; {
		case timedOut && len(part) > 1:
			w.halve(len(part))
			continue
		case timedOut:
			return &LineError{part[0].number, tooSlow(ctx, pool, err)}
		case err != nil:
			return fmt.Errorf("append the lines up to %d: %w", b.last, err)
		}
		if *d = after; bad != nil {
			return bad
		}
		rest = rest[len(part):]
		w.fits()
	}
	return nil
}

// tooSlow explains that a statement_timeout has ended the append of a single event.
func tooSlow(ctx context.Context, pool *pgxpool.Pool, err error) error {
	limit, unknown := rows.One(ctx, pool, pgx.RowTo[string], "read statement_timeout", queryTimeout)
	if unknown != nil {
		return errors.Join(err, unknown)
	}
	return fmt.Errorf("is not appended within the session's statement_timeout of %s: raise it, as with "+
		"options=-c%%20statement_timeout=0 in the URL, or end the transaction that the append waits for, then import "+
		"again: %w", limit, err)
}

// append appends entries in order. If the journal refuses them, it halves them until it finds the
// first bad entry, and appends those before it. The journal also refuses a batch of known and new
// events, so halving also skips events of an earlier import with other lines.
func (d *Imported) append(ctx context.Context, tx pgx.Tx, entries []entry) (bad *LineError, err error) {
	if len(entries) == 0 {
		return nil, nil
	}
	var places []journal.Appended
	err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		if slices.ContainsFunc(entries, entry.reserved) {
			places, err = appendErased(ctx, savepoint, batches(entries))
		} else {
			places, err = journal.Journal{}.AppendAll(ctx, savepoint, batches(entries)...)
		}
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

// batches groups adjacent entries of a campaign, which keeps the entries' order in the whole journal.
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

// refusal returns why the journal refuses an event, as text about its line. It returns nil if the
// append failed because of the state of the database.
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
	if ok && slices.Contains([]string{"TM002", "TM003", "TM004"}, pgErr.Code) { // of appendErased
		return fmt.Errorf("is refused: %s: %s", pgErr.Message, pgErr.Hint)
	}
	if ok && (strings.HasPrefix(pgErr.Code, dataException) || strings.HasPrefix(pgErr.Code, limitExceeded)) {
		return fmt.Errorf("is refused by the database: %s", pgErr.Message)
	}
	return nil
}

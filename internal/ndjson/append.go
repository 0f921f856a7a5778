package ndjson

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

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
	case !refused(err):
		return nil, err
	case len(entries) == 1:
		return &LineError{entries[0].number, reason(err)}, nil
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

// refused says whether an append failed for what its events are, not for the state of the database.
func refused(err error) bool {
	_, invalid := errors.AsType[*journal.InvalidEventError](err)
	if invalid || errors.Is(err, journal.ErrEventIDReused) || errors.Is(err, journal.ErrPartlyAppended) {
		return true
	}
	const dataException, limitExceeded = "22", "54"
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (strings.HasPrefix(pgErr.Code, dataException) ||
		strings.HasPrefix(pgErr.Code, limitExceeded))
}

// reason says about a line what an append says about an event.
func reason(err error) error {
	var (
		invalid *journal.InvalidEventError
		pgErr   *pgconn.PgError
	)
	switch {
	case errors.As(err, &invalid):
		return fmt.Errorf("is refused: %s %s", invalid.Field, invalid.Reason)
	case errors.Is(err, journal.ErrEventIDReused):
		return fmt.Errorf("is refused: %w", journal.ErrEventIDReused)
	case errors.As(err, &pgErr):
		return fmt.Errorf("is refused by the database: %s", pgErr.Message)
	}
	return err
}

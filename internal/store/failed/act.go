package failed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Act records who acts and why. It is kept in tidemark.failure_log.
type Act struct {
	By     string // required, up to 256 bytes
	Reason string // required by [Resolve], [ResolvePlaces] and [Unresolve], up to 4 KiB
}

const (
	actorBytes  = 256
	reasonBytes = 4 << 10
)

func (a Act) validate(reasoned bool) error {
	var errs []error
	if strings.TrimSpace(a.By) == "" {
		errs = append(errs, errors.New("By is missing: say who acts"))
	}
	if reasoned && strings.TrimSpace(a.Reason) == "" {
		errs = append(errs, errors.New("Reason is missing: say why the event is left out, or is not any more"))
	}
	errs = append(errs, text("By", a.By, actorBytes), text("Reason", a.Reason, reasonBytes))
	return errors.Join(errs...)
}

// texts returns an error for each filter value that Postgres would refuse.
func texts(values ...string) []error {
	return slice.Of(values, func(value string) error { return text("a field", value, 4<<10) })
}

// text returns an error if Postgres would refuse the value.
func text(field, value string, limit int) error {
	switch {
	case len(value) > limit:
		return fmt.Errorf("%s has %d bytes, the limit is %d: shorten it", field, len(value), limit)
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return fmt.Errorf("%s is %q: use UTF-8 without NUL", field, value)
	}
	return nil
}

// candidate is a failed campaign that an act found, as it was then.
type candidate struct {
	Place
	Group  string
	Status Status
}

func collect(ctx context.Context, tx pgx.Tx, query string, args ...any) ([]candidate, error) {
	return rows.All(ctx, tx, pgx.RowToStructByPos[candidate], "", query, args...)
}

// take locks and returns the candidates that have not changed. It skips those that others are writing.
func take(ctx context.Context, tx pgx.Tx, found []candidate) ([]candidate, error) {
	if len(found) == 0 {
		return nil, nil
	}
	campaigns, projections, seqs := columns(found)
	due := slice.Of(found, func(c candidate) pgtype.Timestamptz { return timestamp(c.NextAttemptAt) })
	places, err := rows.All(ctx, tx, pgx.RowTo[int], "", queryTake, campaigns, projections, seqs, due)
	if err != nil {
		return nil, err
	}
	return slice.Of(places, func(place int) candidate { return found[place] }), nil
}

// lockOne locks one failed campaign. It waits for its writer.
func lockOne(ctx context.Context, tx pgx.Tx, key Key) (candidate, error) {
	found, err := collect(ctx, tx, queryLockOne, key.CampaignID, key.Projection)
	switch {
	case err != nil:
		return candidate{}, err
	case len(found) == 0:
		return candidate{}, ErrNotFound
	case found[0].Status == CatchingUp:
		return candidate{}, fmt.Errorf("%w: it is being rebuilt and has not failed at event %d", ErrConflict,
			found[0].NextSeq)
	}
	return found[0], nil
}

// write runs an act on locked failed campaigns, logs it, and wakes waiting workers.
func write(ctx context.Context, tx pgx.Tx, query string, chosen []candidate, act Act) ([]Key, error) {
	keys := slice.Of(chosen, func(c candidate) Key { return c.Key })
	if len(chosen) == 0 {
		return keys, nil
	}
	campaigns, projections, _ := columns(chosen)
	if _, err := tx.Exec(ctx, query, campaigns, projections, act.By, act.Reason); err != nil {
		return nil, err
	}
	return keys, lease.Wake(ctx, tx)
}

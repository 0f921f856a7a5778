package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

// stateBytes is the most bytes of rows that [Projector.AsOf] and [Projector.Diff] hold in memory.
const stateBytes = 32 << 20

// AsOf is [Projector.AsOf].
func (y *Replayer) AsOf(
	ctx context.Context, projection, campaignID string, seq int64,
) (state lookback.State, err error) {
	defer rows.Explain(&err, "projection %s of campaign %q as of event %d", projection, campaignID, seq)
	err = y.travel(ctx, projection, campaignID, func(s *scratch, to func(int64) error) (err error) {
		if err = to(seq); err != nil {
			return err
		}
		state = lookback.State{Projection: projection, Version: s.k.Described.Version, CampaignID: campaignID, Seq: seq}
		state.Tables, err = s.rows(ctx)
		return err
	}, seq)
	return state, err
}

// Diff is [Projector.Diff].
func (y *Replayer) Diff(ctx context.Context, projection, campaignID string, from, to int64) ([]lookback.Change, error) {
	var changes []lookback.Change
	size := 0
	err := y.travel(ctx, projection, campaignID, func(s *scratch, until func(int64) error) error {
		if from > to {
			return fmt.Errorf("from is %d and to is %d: swap them", from, to)
		}
		if err := until(from); err != nil {
			return err
		}
		for i, t := range s.tables {
			if _, err := s.Conn.Exec(ctx, fmt.Sprintf(formatCopyTable, s.before(i), s.table(t.Name)),
				pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		if err := until(to); err != nil {
			return err
		}
		c := s.chosen([]string{campaignID})
		for i, t := range s.tables {
			_, err := s.compare(ctx, t, s.before(i), ignored(lookback.VerifyRequest{}, t), c, func(d lookback.Difference) {
				if size += len(d.Got) + len(d.Want); size > stateBytes {
					return
				}
				kind := map[lookback.DifferenceKind]lookback.ChangeKind{
					lookback.DifferenceMissing: lookback.ChangeAdded, lookback.DifferenceExtra: lookback.ChangeRemoved,
					lookback.DifferenceDifferent: lookback.ChangeChanged,
				}[d.Kind]
				changes = append(changes, lookback.Change{
					Kind: kind, Table: d.Table, Key: d.Key, Before: d.Got, After: d.Want,
					Columns: d.Columns,
				})
			})
			if err != nil {
				return err
			}
		}
		if size > stateBytes {
			return lookback.ErrStateTooLarge
		}
		return nil
	}, from, to)
	if err != nil {
		return nil, fmt.Errorf("what events %d to %d of campaign %q changed in projection %s: %w", from+1, to, campaignID,
			projection, err)
	}
	return changes, nil
}

// before returns the name of a table that keeps the earlier rows.
func (s *scratch) before(i int) string { return s.table(fmt.Sprintf("tidemark_before_%d", i)) }

// travel opens a scratch and calls visit with a function that applies the campaign's events up to a
// seq. visit may only go to seqs, which must exist.
func (y *Replayer) travel(
	ctx context.Context, projection, campaignID string, visit func(*scratch, func(int64) error) error, seqs ...int64,
) error {
	k := y.Newest(projection)
	if k == nil {
		return fmt.Errorf("%w: there is no projection %q here, there are %q", registry.ErrRegistered, projection, y.Names())
	}
	if k.Described.Across() {
		return y.travelAcross(ctx, k, campaignID, visit, seqs...)
	}
	s, err := y.openScratch(ctx, k)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	head, err := feed.Head(ctx, s.Conn, campaignID)
	if err != nil {
		return err
	}
	s.head = head.Seq
	skipped, err := failed.Skipped(ctx, s.Conn, projection, []string{campaignID})
	if err != nil {
		return err
	}
	if _, err := s.leaveOutResolved(ctx, []string{campaignID}); err != nil {
		return err
	}
	s.leaveOutSkipped(skipped)
	s.skips = k.MaySkip()
	u := apply.Live(lease.Lease{CampaignID: campaignID})
	return s.show(ctx, visit, "events are numbered from 1", seqs, func(seq int64) error {
		u.Until = seq
		return s.advance(ctx, []*apply.Unit{u})
	})
}

// show calls visit with to, if all places exist.
func (s *scratch) show(
	ctx context.Context, visit func(*scratch, func(int64) error) error, there string, places []int64, to func(int64) error,
) error {
	for _, at := range places {
		if at < 0 || at > s.head {
			return fmt.Errorf("%w: %s to %d, there is no %d", event.ErrNotFound, there, s.head, at)
		}
	}
	if err := visit(s, to); err != nil {
		return err
	}
	return s.untouched(ctx)
}

// rows reads all rows of all tables.
func (s *scratch) rows(ctx context.Context) ([]lookback.StateTable, error) {
	if err := s.unbounded(ctx); err != nil {
		return nil, err
	}
	tables, size := make([]lookback.StateTable, len(s.tables)), 0
	for i, t := range s.tables {
		order := slice.Of(t.Key, func(column string) string { return "t." + pgx.Identifier{column}.Sanitize() })
		if len(t.Key) == 0 {
			order = append(order, "to_jsonb(t)")
		}
		found, err := rows.All(ctx, s.Conn, func(row pgx.CollectableRow) (json.RawMessage, error) {
			if size += len(row.RawValues()[0]); size > stateBytes {
				return nil, lookback.ErrStateTooLarge
			}
			return pgx.RowTo[json.RawMessage](row)
		}, "read the table "+t.Name, fmt.Sprintf(formatTableInOrder, s.table(t.Name), strings.Join(order, ", ")))
		if err != nil {
			return nil, err
		}
		tables[i] = lookback.StateTable{Table: t.Name, Key: t.Key, Columns: t.Columns, Rows: found}
	}
	return tables, nil
}

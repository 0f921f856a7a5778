package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/function"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

const (

	// snapshotCampaigns is how many campaigns are looked at at once, snapshotRound how long a worker
	// rests when it has seen all.
	snapshotCampaigns = 1000
	snapshotRound     = time.Minute
)

// shape tells tables that were made by other statements apart.
func shape(k *registry.Projection) string {
	digest := sha256.Sum256([]byte(k.Described.Tables))
	return hex.EncodeToString(digest[:8])
}

// resume fills the tables, which are empty, with the latest snapshot up to event seq, and answers
// which event it is of; 0: there is none.
func (s *scratch) resume(ctx context.Context, campaignID string, seq int64, leftOut []int64) (int64, error) {
	var from int64
	err := s.Conn.QueryRow(ctx, queryFindSnapshot, campaignID, s.k.Described.Name, s.k.Described.Version, seq, shape(s.k),
		leftOut).Scan(&from)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for i, t := range s.tables {
		table := s.table(t.Name)
		// Rows of a composite type are put apart only once each, behind a function that answers many.
		_, err := s.Conn.Exec(ctx, fmt.Sprintf(formatPutBack, table, t.written(), i, function.Literal(campaignID),
			function.Literal(s.k.Described.Name), s.k.Described.Version, from), pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return 0, fmt.Errorf("put back the snapshot of table %s: %w", t.Name, err)
		}
	}
	return from, nil
}

// keep keeps the rows as a snapshot after event seq, in a transaction of its own.
func (s *scratch) keep(ctx context.Context, campaignID string, seq int64, leftOut []int64) error {
	if err := s.untouched(ctx); err != nil {
		return err
	}
	if err := s.unbounded(ctx); err != nil {
		return err
	}
	names, rows := make([]string, len(s.tables)), "["
	for i, t := range s.tables {
		var list string
		if err := s.Conn.QueryRow(ctx, fmt.Sprintf(formatTableAsText,
			s.table(t.Name))).Scan(&list); err != nil {
			return fmt.Errorf("read the table %s: %w", t.Name, err)
		}
		if names[i] = t.Name; i > 0 {
			rows += ","
		}
		rows += list
	}
	_, err := s.Applier.Cfg.Pool.Exec(ctx, queryKeepSnapshot, campaignID, s.k.Described.Name, s.k.Described.Version, seq,
		shape(s.k), leftOut, names, []byte(rows+"]"))
	if err != nil {
		return fmt.Errorf("keep a snapshot: %w", err)
	}
	return s.thin(ctx, campaignID)
}

// thin keeps the campaign's snapshots at the number allowed. It deletes one at a time: where the
// bound was lowered there are several to delete, and which is next depends on those that are left.
func (s *scratch) thin(ctx context.Context, campaignID string) error {
	for {
		tag, err := s.Applier.Cfg.Pool.Exec(ctx, queryThinSnapshots, campaignID, s.k.Described.Name, s.k.Described.Version,
			s.Applier.Cfg.SnapshotKeep)
		if err != nil {
			return fmt.Errorf("thin out snapshots: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
	}
}

// snapshotable says whether a snapshot is all there is to know: where rows are numbered by a sequence it is not.
func (s *scratch) snapshotable(ctx context.Context) (bool, error) {
	if slices.ContainsFunc(s.tables, func(t scratchTable) bool { return len(t.Numbered) > 0 }) || len(s.tables) == 0 {
		return false, nil
	}
	var numbered bool
	err := s.Conn.QueryRow(ctx, queryHasSequences, s.schema).Scan(&numbered)
	return !numbered, err
}

// KeepSnapshots makes the snapshots of long campaigns that are missing, for as long as the projector runs.
func (y *Replayer) KeepSnapshots(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		err := y.snapshotAll(ctx)
		if err != nil && ctx.Err() == nil {
			y.Cfg.Logger.WarnContext(ctx, "snapshots not made", "error", err)
			registry.Sleep(ctx, y.Backoff(failures))
			failures++
			continue
		}
		failures = 0
		registry.Sleep(ctx, snapshotRound)
	}
}

// snapshotAll looks at all campaigns once, from one at random on, so that replicas do not do the same.
func (y *Replayer) snapshotAll(ctx context.Context) error {
	first, err := lease.Some(ctx, y.Cfg.Pool, y.Cfg.ConsumerGroup)
	if err != nil {
		return err
	}
	for _, projection := range y.Names() {
		k := y.Newest(projection)
		for _, from := range []string{first, ""} {
			for cursor, more := from, true; more && ctx.Err() == nil; {
				if cursor, more, err = y.snapshotSome(ctx, k, cursor); err != nil {
					return err
				}
				more = more && (from != "" || cursor <= first)
			}
		}
	}
	return nil
}

// snapshotSome makes the snapshots of a page of campaigns.
func (y *Replayer) snapshotSome(
	ctx context.Context, k *registry.Projection, cursor string,
) (last string, more bool, err error) {
	long := map[string]int64{}
	n, id, seq := 0, "", int64(0)
	if err := rows.Each(ctx, y.Cfg.Pool, []any{&id, &seq}, func() error {
		if n++; seq > 0 {
			long[id] = seq
		}
		last = max(last, id)
		return nil
	}, "", queryLongCampaigns, y.Cfg.ConsumerGroup, cursor, y.Cfg.SnapshotEvery, k.Described.Name,
		k.Described.Version, snapshotCampaigns); err != nil {
		return "", false, err
	}
	for id, seq := range long {
		err := y.travel(ctx, k.Described.Name, id, func(_ *scratch, to func(int64) error) error { return to(seq) }, seq)
		var failed *failure.ApplyError
		switch {
		case errors.As(err, &failed), errors.Is(err, ErrTouched): // a look back at it will show it
			y.Cfg.Logger.DebugContext(ctx, "snapshot not made", "projection", k.Described.Name, "campaign", id, "error", err)
		case err != nil:
			return "", false, err
		}
	}
	return last, n == snapshotCampaigns, nil
}

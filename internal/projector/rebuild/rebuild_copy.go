package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// The tables of a rebuild have no readers, so workers copy ranges of campaigns without leases. One
// transaction applies all events up to the checkpoints, and records that the range is done. Ranges
// that fail, or whose worker dies, are behind from the first event on. A worker that moves a
// campaign meanwhile defers it, to start over with its rows deleted.

const (
	// rangeCampaigns and rangeEvents are about how much one transaction copies: changes of the
	// registry wait for its end. Folding in memory takes less time.
	rangeCampaigns       = 2000
	rangeEvents          = 10_000
	foldedRangeCampaigns = 10_000
	foldedRangeEvents    = 20_000
)

// CopyRanges copies for the rebuilds of this worker's projections.
func (b *Rebuilder) CopyRanges(ctx context.Context) error {
	for _, k := range b.Seen.Load().Projections {
		if b.Seen.Load().Rows[k.Name].State != registry.StateCopying {
			continue
		}
		done, err := b.copySet(ctx, k)
		if err == nil && done {
			err = b.EndCopy(ctx, k)
		}
		if err != nil {
			return fmt.Errorf("rebuild projection %s: %w", k.Described.Name, err)
		}
	}
	return nil
}

// copySet copies range by range. It reports whether all ranges have been taken.
func (b *Rebuilder) copySet(ctx context.Context, k *registry.Projection) (done bool, err error) {
	var taken atomic.Bool
	g, ctx := errgroup.WithContext(ctx)
	for range b.Cfg.Concurrency {
		g.Go(func() error {
			for {
				if wait := b.Applier.Share.Wait(time.Now()); wait > 0 {
					if !loops.Sleep(ctx, wait) {
						return nil
					}
					continue
				}
				r, err := b.TakeRange(ctx, k)
				if err != nil || r == nil {
					taken.Store(err == nil)
					return err
				}
				start := time.Now()
				err = b.CopyRange(ctx, k, *r)
				b.Applier.Share.Charge(time.Since(start))
				_, slow := errors.AsType[*apply.SlowReadError](err) // a campaign that catches up has more time
				switch {
				case errors.Is(err, ErrNotCopying) || ctx.Err() != nil:
					return ErrNotCopying
				case err != nil && !slow && (b.Infrastructure(ctx, err) || failure.IsLockTimeout(err)):
					return err
				case err != nil:
					b.Cfg.Logger.WarnContext(ctx, "range of campaigns not copied, each catches up by itself", "projection", k.Name,
						"after", r.first, "to", r.last, "error", err)
				}
			}
		})
	}
	err = g.Wait()
	if errors.Is(err, ErrNotCopying) {
		return false, nil
	}
	return taken.Load() && err == nil, err
}

// ErrNotCopying is returned if the rebuild is paused, is past copying, or is gone.
var ErrNotCopying = errors.New("the rebuild does not copy")

// campaignRange is the campaigns after first, up to last.
type campaignRange struct {
	first, last string
	campaigns   []lease.Lease // with their checkpoints: a worker that moves one from there defers it
}

// TakeRange returns the next range; nil: there is none.
func (b *Rebuilder) TakeRange(ctx context.Context, k *registry.Projection) (r *campaignRange, err error) {
	err = pgx.BeginFunc(ctx, b.Cfg.Pool, func(tx pgx.Tx) error {
		var first string
		err := tx.QueryRow(ctx, queryCopyCursor, k.Described.Name).Scan(&first)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotCopying
		}
		if err != nil {
			return err
		}
		campaigns, events := rangeCampaigns, int64(rangeEvents)
		if _, ok := k.Projection.(kind.Foldable); ok {
			campaigns, events = foldedRangeCampaigns, foldedRangeEvents
		}
		if r, err = b.nextRange(ctx, tx, first, campaigns, events); err != nil || r == nil {
			return err
		}
		batch := &pgx.Batch{}
		batch.Queue(queryMoveCopyCursor, k.Described.Name, r.last)
		batch.Queue(queryCommitLater)
		return tx.SendBatch(ctx, batch).Close()
	})
	return r, err
}

// nextRange returns campaigns after first, limited in number and events, but at least one; nil: there are none.
func (b *Rebuilder) nextRange(
	ctx context.Context, tx pgx.Tx, first string, campaigns int, events int64,
) (*campaignRange, error) {
	r := &campaignRange{first: first}
	var l lease.Lease
	err := rows.Each(ctx, tx, []any{&l.CampaignID, &l.Checkpoint}, func() {
		if events <= 0 {
			return
		}
		events -= l.Checkpoint
		if r.last = l.CampaignID; l.Checkpoint > 0 {
			r.campaigns = append(r.campaigns, l)
		}
	}, "", queryNextRange, b.Cfg.ConsumerGroup, first, campaigns)
	if err != nil || r.last == "" {
		return nil, err
	}
	return r, nil
}

// CopyRange applies the events of a range's campaigns, without those that are behind already.
func (b *Rebuilder) CopyRange(ctx context.Context, k *registry.Projection, r campaignRange) (err error) {
	ctx, span := b.Traced(ctx, "copy", k)
	events := int64(0)
	defer func() { span.End(int(events), wrong(err)) }()
	conn, err := b.Cfg.Pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire a connection: %w", err)
	}
	t := b.Applier.On(conn, nil, nil)
	defer t.Abort(ctx)
	t.Queue(apply.QueryBegin)
	t.QueueSettings()
	t.Queue(registry.QueryRegistryShared, b.Cfg.ConsumerGroup)
	var copying bool
	t.Queue(queryCopying, k.Name, k.Described.Version).QueryRow(func(row pgx.Row) error { return row.Scan(&copying) })
	t.Sync()
	// Read this before filed: an operator who resolves an event in between defers its campaign.
	failed.LeftOutBetween(t.Batch, k.Name, r.first, r.last, t.LeaveOut)
	filed, id := map[string]bool{}, ""
	t.Queue(queryRangeFiled, b.Cfg.ConsumerGroup, k.Name, r.first, r.last).
		Query(rows.Visit([]any{&id}, func() { filed[id] = true }))
	if err := t.Flush(ctx); err != nil {
		return t.Blame(err)
	}
	if !copying {
		return ErrNotCopying
	}
	campaigns := slices.DeleteFunc(r.campaigns, func(l lease.Lease) bool { return filed[l.CampaignID] })
	if err := copyCampaigns(ctx, t, k, r, campaigns); err != nil {
		return t.Blame(err)
	}
	for _, c := range campaigns {
		events += c.Checkpoint
	}
	t.At = pipeline.Origin{}
	t.Queue(queryRangeDone, k.Name, r.first, r.last, len(campaigns), events)
	t.Queue(queryCommitLater)
	t.Queue(apply.QueryCommit)
	if err := t.Flush(ctx); err != nil {
		return t.Blame(err)
	}
	b.Applied.Add(events)
	b.Metrics.Groups.Count(int(events))
	b.Metrics.Projections.Through.WithLabelValues(k.Name).Add(float64(events))
	return nil
}

// copyCampaigns applies a range's events, up to the checkpoints, to a projection without rows of its campaigns.
func copyCampaigns(
	ctx context.Context, t *apply.Transaction, k *registry.Projection, r campaignRange, campaigns []lease.Lease,
) error {
	t.Use(k)
	t.LimitStatements(k.Timeout(nil))
	archived, err := feed.AnyArchived(ctx, t.Conn, r.first, r.last)
	if err != nil {
		return err
	}
	if call := k.Call.Load(); call != nil && !archived {
		var s apply.Stretches
		for _, c := range campaigns {
			t.Stretch(&s, k, c.CampaignID, 0, c.Checkpoint)
		}
		t.At = pipeline.Origin{Projection: k.Name}
		t.Queue(call.SQL, s.Campaigns, s.After, s.Until)
		return nil
	}
	// A fold in memory does not look for rows that cannot exist, and writes each row once.
	var fold kind.Folder
	if f, ok := k.Projection.(kind.Foldable); ok {
		fold = f.NewFold()
	}
	pages := newRangePages(t, k, r, campaigns)
	for more := true; more; {
		var err error
		if more, err = pages.next(ctx); err != nil {
			return err
		}
		if err := copyEvents(ctx, t, k, fold, !more); err != nil {
			return err
		}
	}
	return nil
}

func copyEvents(ctx context.Context, t *apply.Transaction, k *registry.Projection, fold kind.Folder,
	last bool,
) error {
	if fold != nil {
		g := t.Group(k, kind.Events{All: t.Events})
		return t.Applier.Supervise(ctx, k, g, func(ctx context.Context) error {
			if err := fold.Add(g); err != nil {
				return err
			}
			return fold.Write(ctx, g, last)
		})
	}
	if len(t.Events) == 0 {
		return nil
	}
	return t.Apply(ctx, k, kind.Events{All: t.Events})
}

// EndCopy ends the copying once all ranges are taken. It waits for those under way; later ones are too late.
func (b *Rebuilder) EndCopy(ctx context.Context, k *registry.Projection) error {
	err := registry.Exclusively(ctx, b.Cfg.Pool, k.Described.Name, func(tx pgx.Tx) error {
		return rows.Do(ctx, tx, "", queryEndCopy, k.Name, k.Described.Version)
	})
	if failure.IsLockTimeout(err) {
		return nil // next time
	}
	return err
}

// wrong returns err, unless it means only that there is nothing to do.
func wrong(err error) error {
	if errors.Is(err, ErrNotCopying) || errors.Is(err, ErrNotYet) {
		return nil
	}
	return err
}

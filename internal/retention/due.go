package retention

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/archive"
)

const (
	walked  = 2000   // campaigns that one statement looks at
	window  = 50_000 // positions that one statement looks at
	atATime = 2000   // campaigns of one call of archive.Run
	mostOut = 100    // reasons that are kept
)

// begin is the time at which a run begins, and the position up to which its policy has seen events.
type begin struct {
	At       time.Time
	Position int64
}

// archive notes the campaigns that were closed since the last run, and archives those that are due. So a
// run costs nothing for those that are archived, or that nothing happened to.
func (r *Runner) archive(ctx context.Context, p Policy, b begin) (done archive.Report, err error) {
	if err := r.note(ctx, p, b.Position); err != nil {
		return done, err
	}
	began := time.Now()
	var last due
	for {
		page, err := rows.All(ctx, r.Pool, pgx.RowToStructByPos[due], "find closed campaigns", queryDue, p.Name, b.At,
			last.At, last.Campaign, atATime, p.Types, p.ClosedFor)
		if err != nil || len(page) == 0 {
			return done, err
		}
		last = page[len(page)-1]
		var all, closed []string
		for _, d := range page {
			if all = append(all, d.Campaign); d.Closed {
				closed = append(closed, d.Campaign)
			}
		}
		if !loops.Rated(ctx, began, done.Events, p.Rate) {
			return done, ctx.Err()
		}
		if err := r.move(ctx, p, closed, &done); err != nil {
			return done, err
		}
		if err := rows.Do(ctx, r.Pool, "forget campaigns", querySettle, p.Name, all, p.Types, p.ClosedFor); err != nil {
			return done, err
		}
	}
}

// due is a campaign that a policy looks at.
type due struct {
	Campaign string
	At       time.Time
	Closed   bool // for long enough
}

// note notes campaigns that were closed after a position. At -1 it goes through all campaigns.
func (r *Runner) note(ctx context.Context, p Policy, position int64) error {
	floor, err := feed.Floor(ctx, r.Pool)
	if err != nil {
		return err
	}
	if position < 0 || position > floor { // the journal of a copy may be shorter
		return r.walk(ctx, p, floor)
	}
	for position < floor {
		until := min(position+window, floor)
		if err := rows.Do(ctx, r.Pool, "note closed campaigns", querySee, p.Name, position, until, p.Types,
			p.ClosedFor); err != nil {
			return err
		}
		if err := r.keep(ctx); err != nil {
			return err
		}
		position = until
	}
	return nil
}

func (r *Runner) walk(ctx context.Context, p Policy, floor int64) error {
	if err := rows.Do(ctx, r.Pool, "start a policy over", queryStartOver, p.Name); err != nil {
		return err
	}
	type step struct {
		Last string
		N    int
	}
	for after, more := "", true; more; {
		s, err := rows.One(ctx, r.Pool, pgx.RowToStructByPos[step], "note closed campaigns", queryWalk, p.Name, after, walked,
			p.Types, p.ClosedFor)
		if err == nil {
			err = r.keep(ctx)
		}
		if err != nil {
			return err
		}
		after, more = s.Last, s.N == walked
	}
	return rows.Do(ctx, r.Pool, "note closed campaigns", queryWalked, p.Name, floor)
}

// keep renews the duty.
func (r *Runner) keep(ctx context.Context) error {
	mine, err := lease.TakeDuty(ctx, r.Pool, duty, r.Owner, dutyTTL)
	if err == nil && !mine {
		err = errTaken
	}
	return err
}

// move archives campaigns.
func (r *Runner) move(ctx context.Context, p Policy, campaigns []string, done *archive.Report) error {
	if len(campaigns) == 0 {
		return nil
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	part, err := archive.Run(running, r.Pool, r.Store, archive.Request{
		Campaigns: campaigns, Rate: p.Rate, By: "retention", Reason: "policy " + p.Name,
		Progress: func(archive.Report) {
			if err := r.keep(ctx); err != nil {
				cancel(err)
			}
		},
	})
	done.Objects += part.Objects
	done.Campaigns += part.Campaigns
	done.Events += part.Events
	done.Bytes += part.Bytes
	done.LeftOut += part.LeftOut
	done.Left = append(done.Left, part.Left[:min(len(part.Left), mostOut-len(done.Left))]...)
	if err != nil {
		err = cmp.Or(context.Cause(running), err)
	}
	return err
}

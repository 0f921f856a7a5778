package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Gap is a campaign that a consumer group would not come to by itself: its journal goes on beyond
// the group's checkpoint, and the outbox has nothing for it. There are none unless an append did
// not know the group (see [Register]) or work items were deleted by hand; the campaign's next
// append closes one too.
type Gap struct {
	Group      string
	CampaignID string
	Checkpoint int64 // the last seq applied
	Head       int64 // the campaign's last seq
}

// gapCampaigns is how many campaigns are looked at in one statement, unless told.
const gapCampaigns = 5000

// Gaps looks at up to limit campaigns (0: 5000), from after on ("" to begin), and answers the gaps
// of a consumer group among them, and what to pass as after to go on; next is "" at the end.
// Campaigns come in the reverse order of their ids. What is appended or applied meanwhile is no
// gap: each call sees one moment. A campaign has none if all it has beyond the checkpoint is
// audit_only or replay_only, which nothing projects. The cost is two index probes a campaign, about
// ten microseconds.
func Gaps(
	ctx context.Context, db journal.Querier, group, after string, limit int,
) (gaps []Gap, next string, err error) {
	if limit < 0 {
		return nil, "", fmt.Errorf("look for gaps of group %s: the limit is %d campaigns, at least 1 is needed", group, limit)
	}
	gaps, next, _, err = lookForGaps(ctx, db, group, after, cmp.Or(limit, gapCampaigns))
	return gaps, next, err
}

func lookForGaps(
	ctx context.Context, db journal.Querier, group, after string, limit int,
) (gaps []Gap, next string, looked int, err error) {
	if group == "" {
		return nil, "", 0, errors.New("look for gaps: name the consumer group")
	}
	var ids []string
	var checkpoints, heads []int64
	if err := rows.Each(ctx, db, []any{&ids, &checkpoints, &heads, &next, &looked}, func() error {
		return nil
	}, fmt.Sprintf("look for gaps of group %s", group), queryGaps, group, after, limit); err != nil {
		return nil, "", 0, err
	}
	gaps = make([]Gap, len(ids))
	for i, id := range ids {
		gaps[i] = Gap{Group: group, CampaignID: id, Checkpoint: checkpoints[i], Head: heads[i]}
	}
	return gaps, next, looked, nil
}

// RepairGap gives the campaign one work item, which brings it to its head, and writes to
// tidemark.failure_log that by did so. It does nothing if there is no gap by now.
func RepairGap(ctx context.Context, tx pgx.Tx, gap Gap, by, reason string) (err error) {
	defer rows.Explain(&err, "repair the gap of campaign %q in group %s", gap.CampaignID, gap.Group)
	if by == "" {
		return errors.New("name who does it")
	}
	_, err = tx.Exec(ctx, queryRepairGap, gap.Group, gap.CampaignID, gap.Checkpoint, by, reason)
	return err
}

// Beginner begins transactions: a *pgxpool.Pool or a *pgx.Conn.
type Beginner interface {
	journal.Querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Repair looks for the gaps of a consumer group in all of the journal and repairs them.
type Repair struct {
	Group  string
	By     string // who does it, for the log
	Reason string // for the log; optional
	Chunk  int    // campaigns looked at in one statement; default 5000
	Rate   int    // campaigns looked at in a second, at most; 0: no limit

	// OnGap, if set, is called for each gap once its repair has been tried, with the error if it failed.
	OnGap func(Gap, error)
}

// Repaired is what came of a [Repair].
type Repaired struct {
	Campaigns int // looked at
	Gaps      int // found
	Failed    int // of them, not repaired
}

// Run repairs the gaps, campaign by campaign, each in a transaction of its own: one that fails does
// not stop the others, and is counted and given to OnGap. It returns an error if it cannot look any
// further. Run again, it finds what failed and nothing else.
func (r Repair) Run(ctx context.Context, db Beginner) (done Repaired, err error) {
	defer rows.Explain(&err, "repair the gaps of group %s", r.Group)
	if r.By == "" {
		return done, errors.New("name who does it")
	}
	if r.Rate < 0 {
		return done, fmt.Errorf("the rate is %d campaigns a second: give one above 0, or 0 for no limit", r.Rate)
	}
	r.Chunk = cmp.Or(r.Chunk, gapCampaigns)
	if r.Rate > 0 {
		r.Chunk = max(1, min(r.Chunk, r.Rate/10)) // ten times a second
	}
	for after := ""; ; {
		start := time.Now()
		gaps, next, looked, err := lookForGaps(ctx, db, r.Group, after, r.Chunk)
		if err != nil {
			return done, err
		}
		done.Campaigns += looked
		for _, gap := range gaps {
			err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return RepairGap(ctx, tx, gap, r.By, r.Reason) })
			if ctx.Err() != nil {
				return done, ctx.Err()
			}
			done.Gaps++
			if err != nil {
				done.Failed++
			}
			if r.OnGap != nil {
				r.OnGap(gap, err)
			}
		}
		if next == "" {
			return done, nil
		}
		after = next
		if r.Rate > 0 && !wait(ctx, time.Duration(looked)*time.Second/time.Duration(r.Rate)-time.Since(start)) {
			return done, ctx.Err()
		}
	}
}

// wait answers false if ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

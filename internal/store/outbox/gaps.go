package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Gap is a campaign whose journal goes beyond a group's checkpoint while the outbox has no work
// item for it. Gaps arise only if an append did not know the group (see [Register]) or work items
// were deleted by hand. The campaign's next append closes a gap too.
type Gap struct {
	Group      string
	CampaignID string
	Checkpoint int64 // the last seq applied
	Head       int64 // the campaign's last seq
}

// gapCampaigns is the default number of campaigns per statement.
const gapCampaigns = 5000

// Gaps looks at up to limit campaigns (0: 5000) after after ("" to begin) and returns the gaps of a
// consumer group among them. Pass next as after to go on; next is "" at the end. Campaigns come in
// the reverse order of their ids. Each call sees one moment, so concurrent appends and applies make
// no gaps. audit_only and replay_only events beyond the checkpoint make none either: nothing
// projects them. A campaign costs two index probes, about ten microseconds.
func Gaps(
	ctx context.Context, db event.Querier, group, after string, limit int,
) (gaps []Gap, next string, err error) {
	if limit < 0 {
		return nil, "", fmt.Errorf("look for gaps of group %s: the limit is %d campaigns, at least 1 is needed", group, limit)
	}
	gaps, next, _, err = lookForGaps(ctx, db, group, after, cmp.Or(limit, gapCampaigns))
	return gaps, next, err
}

func lookForGaps(
	ctx context.Context, db event.Querier, group, after string, limit int,
) (gaps []Gap, next string, looked int, err error) {
	if group == "" {
		return nil, "", 0, errors.New("look for gaps: name the consumer group")
	}
	var ids []string
	var checkpoints, heads []int64
	if err := rows.Each(ctx, db, []any{&ids, &checkpoints, &heads, &next, &looked}, func() {},
		fmt.Sprintf("look for gaps of group %s", group), queryGaps, group, after, limit); err != nil {
		return nil, "", 0, err
	}
	gaps = make([]Gap, len(ids))
	for i, id := range ids {
		gaps[i] = Gap{Group: group, CampaignID: id, Checkpoint: checkpoints[i], Head: heads[i]}
	}
	return gaps, next, looked, nil
}

// RepairGap enqueues one work item, which brings the campaign to its head, and logs by and reason
// to tidemark.failure_log. It does nothing if the gap has closed.
func RepairGap(ctx context.Context, tx pgx.Tx, gap Gap, by, reason string) (err error) {
	defer rows.Explain(&err, "repair the gap of campaign %q in group %s", gap.CampaignID, gap.Group)
	if by == "" {
		return errors.New("name who does it")
	}
	return rows.Do(ctx, tx, "", queryRepairGap, gap.Group, gap.CampaignID, gap.Checkpoint, by, reason)
}

// Beginner begins transactions: a *pgxpool.Pool or a *pgx.Conn.
type Beginner interface {
	event.Querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Repair finds and repairs the gaps of a consumer group in the whole journal.
type Repair struct {
	Group  string
	By     string // who acts, for the log
	Reason string // for the log; optional
	Chunk  int    // campaigns per statement; default 5000
	Rate   int    // campaigns per second, at most; 0: no limit

	// OnGap, if set, is called for each gap after its repair, with the error if it failed.
	OnGap func(Gap, error)
}

// Repaired is the result of a [Repair].
type Repaired struct {
	Campaigns int // looked at
	Gaps      int // found
	Failed    int // of the gaps, not repaired
}

// Run repairs each gap in a transaction of its own. A failed repair is counted and given to OnGap;
// the others go on, and a second Run finds it. Run returns an error only if it cannot look further.
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
		r.Chunk = max(1, min(r.Chunk, r.Rate/10)) // ten statements a second
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
		if after = next; r.Rate > 0 {
			select {
			case <-ctx.Done():
				return done, ctx.Err()
			case <-time.After(time.Duration(looked)*time.Second/time.Duration(r.Rate) - time.Since(start)):
			}
		}
	}
}

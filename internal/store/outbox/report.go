package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	exactRows   = 10_000 // work items looked at one by one
	exactPairs  = 5000   // deferred pairs
	samplePages = 12     // read where there are more
)

// GroupReport says what remains to be done for one consumer group.
type GroupReport struct {
	Group      string
	Pending    int64 // events
	Processing int64 // events
	Paused     int64 // events
	Failed     int64 // pairs
	Dead       int64 // pairs
	Rebuilding int64 // pairs

	// Oldest is the entry that has waited longest among those a worker could take now: pending work
	// items, and failed pairs whose retry is due, of projections that are not paused. Nil if there is
	// none.
	Oldest *Entry

	// Estimated says that there is too much to count: the counts are near, and Oldest is the oldest
	// entry of those that were looked at.
	Estimated bool

	// At is the database's time of the report; Oldest has waited At.Sub(Oldest.Since).
	At time.Time
}

// Report answers how it stands with each consumer group, in the order of their names, at one
// moment.
//
// Up to 10,000 work items of a group are looked at, and 5,000 pairs, each projection its part of
// them. Where there are more, some pages of their tables are read, which stand for the rest: so a
// report on ten million entries takes no longer than one on ten thousand. Of failed pairs, Oldest
// knows the thousand that are due first.
func Report(ctx context.Context, db journal.Querier) ([]GroupReport, error) {
	return rows.All(ctx, db, scanGroupReport, "report on the outbox", queryReport, exactRows, samplePages, exactPairs)
}

func scanGroupReport(row pgx.CollectableRow) (GroupReport, error) {
	var (
		group     GroupReport
		oldest    Entry
		hasOldest bool
	)
	err := row.Scan(&group.Group, &group.At, &group.Pending, &group.Processing, &group.Paused, &group.Failed, &group.Dead,
		&group.Rebuilding, &group.Estimated, &hasOldest,
		&oldest.CampaignID, &oldest.Seq, &oldest.Events, &oldest.EventType, &oldest.Status, &oldest.Projection,
		&oldest.Since, &oldest.Attempts, &oldest.NextAttemptAt, &oldest.Error)
	if hasOldest {
		oldest.Group = group.Group
		group.Oldest = &oldest
	}
	return group, err
}

// Behind says how far something is behind the journal.
type Behind struct {
	Group      string
	Projection string        // empty: the group as a whole, that is, its checkpoints
	Events     int64         // events that are appended and not applied
	Campaigns  int64         // campaigns they belong to
	Age        time.Duration // since the oldest of them was appended, by the database's clock; 0 if there is none
	// there is too much to count: Events and Campaigns are near, and Age is the oldest of what was looked at
	Estimated bool
}

// Lag answers how far each consumer group is behind and, after it, each of its projections. A
// projection is behind its group in campaigns where it failed or is catching up. Events that no
// projection wants count until a worker has passed them.
//
// Up to 10,000 work items of a group are counted, and 10,000 deferred pairs. Where there are more,
// some pages of their tables are read, which stand for the rest.
func Lag(ctx context.Context, db journal.Querier) ([]Behind, error) {
	return rows.All(ctx, db, func(row pgx.CollectableRow) (Behind, error) {
		var b Behind
		var seconds float64
		err := row.Scan(&b.Group, &b.Projection, &b.Events, &b.Campaigns, &seconds, &b.Estimated)
		b.Age = time.Duration(seconds * float64(time.Second))
		return b, err
	}, "measure the lag", queryLag, exactRows, samplePages)
}

// Waiting is a campaign that a consumer group has work in.
type Waiting struct {
	Group      string
	CampaignID string
	Since      time.Time // when the first of its work items was enqueued
	Checkpoint int64     // the last seq applied; 0: none
	Head       int64     // the campaign's last seq
	Held       bool      // a worker holds its lease
}

// Behind is how many events of the campaign the group has before it.
func (w Waiting) Behind() int64 { return w.Head - w.Checkpoint }

// WalkWaiting answers up to limit campaigns with work, in the order of groups and campaigns, from
// those after the group and the campaign named ("" and "": from the first). It probes indexes a few
// times for each campaign that it answers, however long the outbox is.
func WalkWaiting(
	ctx context.Context, db journal.Querier, afterGroup, afterCampaign string, limit int,
) ([]Waiting, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Waiting], "walk campaigns that wait",
		queryWaiting, afterGroup, afterCampaign, limit)
}

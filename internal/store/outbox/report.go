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

package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// GroupReport says what remains to be done for one consumer group.
type GroupReport struct {
	Group      string
	Pending    int64 // work items
	Processing int64 // work items
	Failed     int64 // pairs
	Dead       int64 // pairs
	Rebuilding int64 // pairs

	// Oldest is the entry that has waited longest among those a worker could take now: pending work items, and failed pairs whose retry is due.
	// Nil if there is none.
	Oldest *Entry

	// At is the database's time of the report; Oldest has waited At.Sub(Oldest.Since).
	At time.Time
}

// Report answers how it stands with each consumer group, in the order of their names. It reads the whole outbox once.
func Report(ctx context.Context, db journal.Querier) ([]GroupReport, error) {
	rows, err := db.Query(ctx, queryReport)
	if err != nil {
		return nil, fmt.Errorf("report on the outbox: %w", err)
	}
	groups, err := pgx.CollectRows(rows, scanGroupReport)
	if err != nil {
		return nil, fmt.Errorf("report on the outbox: %w", err)
	}
	return groups, nil
}

func scanGroupReport(row pgx.CollectableRow) (GroupReport, error) {
	var (
		group     GroupReport
		oldest    Entry
		hasOldest bool
	)
	err := row.Scan(&group.Group, &group.At, &group.Pending, &group.Processing, &group.Failed, &group.Dead, &group.Rebuilding, &hasOldest,
		&oldest.CampaignID, &oldest.Seq, &oldest.EventType, &oldest.Status, &oldest.Projection, &oldest.Since, &oldest.Attempts, &oldest.NextAttemptAt, &oldest.Error)
	if hasOldest {
		oldest.Group = group.Group
		group.Oldest = &oldest
	}
	return group, err
}

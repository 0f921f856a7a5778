package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

const (
	exactRows   = 10_000 // work items counted exactly
	exactFailed = 5000   // failed campaigns counted exactly
	samplePages = 12     // pages read beyond that
)

// GroupReport is the outstanding work of one consumer group.
type GroupReport struct {
	Group      string
	Pending    int64 // events
	Processing int64 // events
	Paused     int64 // events
	Failed     int64 // failed campaigns
	Dead       int64 // failed campaigns
	CatchingUp int64 // campaigns that are behind without a failure

	// Oldest is the oldest entry that a worker could take now: a pending work item, or a failed
	// campaign whose retry is due and whose projection is not paused. Nil if there is none.
	Oldest *Entry

	// Estimated means too much to count: the counts are approximate, and Oldest is the oldest of the entries read.
	Estimated bool

	// At is the database's time of the report. Oldest has waited At.Sub(Oldest.Since).
	At time.Time
}

// Report returns the outstanding work of each consumer group as of one moment, ordered by group.
//
// It counts up to 10,000 work items of a group and 5,000 failed campaigns, shared among
// projections, and extrapolates beyond that from some pages. So ten million entries take no longer
// than ten thousand. Oldest considers the thousand failed campaigns due first.
func Report(ctx context.Context, db event.Querier) ([]GroupReport, error) {
	return rows.All(ctx, db, scanGroupReport, "report on the outbox", queryReport, exactRows, samplePages, exactFailed)
}

func scanGroupReport(row pgx.CollectableRow) (GroupReport, error) {
	var (
		group     GroupReport
		oldest    Entry
		hasOldest bool
	)
	err := row.Scan(&group.Group, &group.At, &group.Pending, &group.Processing, &group.Paused, &group.Failed, &group.Dead,
		&group.CatchingUp, &group.Estimated, &hasOldest,
		&oldest.CampaignID, &oldest.Seq, &oldest.Events, &oldest.EventType, &oldest.Status, &oldest.Projection,
		&oldest.Since, &oldest.Attempts, &oldest.NextAttemptAt, &oldest.Error)
	if hasOldest {
		oldest.Group = group.Group
		group.Oldest = &oldest
	}
	return group, err
}

// Behind is the lag of a consumer group or a projection: the events that it takes and has not applied. A
// group takes what one of its projections by campaign takes, or all if it has no projections.
type Behind struct {
	Group      string
	Projection string        // empty: the group as a whole, by its checkpoints
	Events     int64         // appended and not applied
	Campaigns  int64         // with such events
	Age        time.Duration // since the oldest of them was appended, by the database's clock; 0 if there is none
	// too much to count: Events and Campaigns are approximate, and Age is the oldest of the rows read
	Estimated bool
}

// Lag returns the lag of each consumer group and, after it, of each of its projections. A
// projection is behind its group in campaigns where it failed or is catching up. It takes the types and
// intents that the program which registered it last wants. A projection across campaigns is as far
// behind as the first event that it has not applied, be it after its place in the journal or at a key
// that has failed. Then Events is an upper bound, and Estimated. Campaigns counts its keys that are
// behind, and its partitions.
//
// It counts up to 10,000 work items of a group and 10,000 failed campaigns, with 10,000 events of each.
// Beyond that it extrapolates from some pages of the tables, and from some events of each campaign.
func Lag(ctx context.Context, db event.Querier) ([]Behind, error) {
	return rows.All(ctx, db, func(row pgx.CollectableRow) (Behind, error) {
		var b Behind
		var seconds float64
		err := row.Scan(&b.Group, &b.Projection, &b.Events, &b.Campaigns, &seconds, &b.Estimated)
		b.Age = time.Duration(seconds * float64(time.Second))
		return b, err
	}, "measure the lag", queryLag, exactRows, samplePages)
}

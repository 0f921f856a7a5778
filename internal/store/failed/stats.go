package failed

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Statistics sums up the pairs that a filter chooses.
type Statistics struct {
	At         time.Time // by the database's clock
	Failed     int64     // pairs
	Dead       int64     // pairs
	Rebuilding int64     // pairs, if the filter's Status holds it
	// more pairs match than the filter's Limit: all figures but Growth are of the first in the order of [List]
	More bool

	// The pairs by one of their properties, the most frequent values first, at most 50 each.
	Projections  []Tally
	EventTypes   []Tally
	Classes      []Tally
	Fingerprints []Tally

	Oldest *Campaign // that failed first; nil if none has
	Growth Growth
}

// Tally is how many pairs share a value of a property.
type Tally struct {
	Value         string // empty: unknown
	Campaigns     int64
	FirstFailedAt *time.Time // the earliest of them; nil: never
	LastFailedAt  *time.Time // the latest of them; nil: never
	Sample        string     // the message of one of them, for fingerprints
}

// Growth counts failed attempts, of pairs that have since recovered as well, by the log: in the
// last hour and day, and in the hour and day before. Of the filter, Status, age, After and Limit do
// not apply. No count goes beyond 100,000.
type Growth struct {
	LastHour, HourBefore int64
	LastDay, DayBefore   int64
}

const growthLimit = 100_000

// Stats sums up the pairs that f chooses, which are failed and dead ones if f.Status is nil. It
// reads up to f.Limit of them (0: 100,000).
func Stats(ctx context.Context, db journal.Querier, f Filter) (_ *Statistics, err error) {
	defer rows.Explain(&err, "sum up failed campaigns")
	if len(f.Status) == 0 {
		f.Status = []Status{Failed, Dead}
	}
	if err := f.validate(); err != nil {
		return nil, err
	}
	s, oldest := &Statistics{}, Key{}
	var kind, sample string
	var t Tally
	err = rows.Each(ctx, db, []any{&s.At, &kind, &t.Value, &t.Campaigns, &t.FirstFailedAt, &t.LastFailedAt, &sample},
		func() error {
			switch kind {
			case "failed":
				s.Failed = t.Campaigns
			case "dead":
				s.Dead = t.Campaigns
			case "rebuilding":
				s.Rebuilding = t.Campaigns
			case "more":
				s.More = t.Campaigns > 0
			case "oldest":
				oldest = Key{Projection: t.Value, CampaignID: sample}
			case "projection":
				s.Projections = append(s.Projections, t)
			case "event_type":
				s.EventTypes = append(s.EventTypes, t)
			case "class":
				s.Classes = append(s.Classes, t)
			case "fingerprint":
				t.Sample = sample
				s.Fingerprints = append(s.Fingerprints, t)
				t.Sample = ""
			}
			return nil
		}, "", queryStats, f.args(statsLimit)...)
	if err != nil {
		return nil, f.explain(err)
	}
	return s, f.explain(s.complete(ctx, db, f, oldest))
}

// complete adds what other statements answer.
func (s *Statistics) complete(ctx context.Context, db journal.Querier, f Filter, oldest Key) error {
	if oldest.Projection != "" {
		pair, err := get(ctx, db, oldest)
		switch {
		case err == nil:
			s.Oldest = &pair
		case !errors.Is(err, ErrNotFound): // it may have caught up meanwhile
			return err
		}
	}
	var err error
	s.Growth, err = rows.One(ctx, db, pgx.RowToStructByPos[Growth], "", queryGrowth,
		pgx.QueryExecModeCacheDescribe, f.Group, f.Projection, f.CampaignID, f.EventType, f.Class, f.Code, f.Fingerprint,
		f.MessagePattern, growthLimit)
	return err
}

const (
	exactRows   = 5000 // counted one by one
	samplePages = 24   // read where there are more

)

// Sum is how many pairs of a projection have a status and, if they have failed, a class of error.
type Sum struct {
	Group      string // consumer group
	Projection string
	Status     Status
	Class      string // infrastructure, transient, permanent or lock; empty: unknown, or rebuilding
	Campaigns  int64
	Estimated  bool       // there are too many to count: Pairs is near
	Since      *time.Time // when the first of them failed; nil: rebuilding
}

// Report sums up all pairs, in the order of group, projection, status and class, at one moment. It
// takes no longer for ten million than for ten thousand: about 5,000 that failed and 5,000 that are
// due are counted, those of other sums are estimated from some pages of the table.
func Report(ctx context.Context, db journal.Querier) ([]Sum, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Sum], "sum up failed campaigns", queryReport, exactRows, samplePages)
}

package operator

import (
	"context"
	"iter"
	"time"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/failed"
)

// Filter chooses failed campaigns. Empty fields choose all.
type Filter struct {
	Group       string
	Projection  string
	CampaignID  string
	EventType   string   // of the event that failed
	Class       string   // "infrastructure", "transient", "permanent" or "lock"
	Code        string   // a SQLSTATE, or "panic", "crash", "decode", "key", "error" …
	Fingerprint string   // of the message: equal for messages that differ only in numbers and names
	Status      []string // "failed" or "dead"
}

// FailedCampaign is a campaign that a projection could not apply an event of.
type FailedCampaign struct {
	Failed

	Group         string
	Status        string    // "failed": it is retried; "dead": only an operator retries it
	Seq           int64     // of the event
	EventType     string    //
	Attempts      int       // at that event, since it was last requeued
	NextAttemptAt time.Time // zero: when an operator asks for it
	Class         string    // as in [Filter]
	Code          string    //
	Message       string    // at most 4 KiB
	Fingerprint   string    //
}

// Failed returns the failed campaigns that f chooses, those due first. It reads them page by page while they are
// iterated, so it shows what changes meanwhile. An error is its last value.
func (o Operator) Failed(ctx context.Context, f Filter) iter.Seq2[FailedCampaign, error] {
	return func(yield func(FailedCampaign, error) bool) {
		if _, err := o.acts(); err != nil {
			yield(FailedCampaign{}, err)
			return
		}
		filter := admin.FailedFilter(f).Filter()
		if len(filter.Status) == 0 {
			filter.Status = []failed.Status{failed.Failed, failed.Dead}
		}
		filter.Limit = failedPage
		for {
			page, err := failed.List(ctx, o.DB, filter)
			if err != nil {
				yield(FailedCampaign{}, err)
				return
			}
			for i := range page {
				if !yield(failedOf(&page[i]), nil) {
					return
				}
			}
			if len(page) < failedPage {
				return
			}
			last := page[len(page)-1].Place()
			filter.After = &last
		}
	}
}

// failedPage is how many failed campaigns a statement reads.
const failedPage = 200

func failedOf(c *failed.Campaign) FailedCampaign {
	return FailedCampaign{
		Failed: Failed{c.Projection, c.CampaignID}, Group: c.Group, Status: string(c.Status), Seq: c.NextSeq,
		EventType: c.EventType, Attempts: c.Attempts, NextAttemptAt: c.NextAttemptAt, Class: c.Class, Code: c.Code,
		Message: c.Message, Fingerprint: c.Fingerprint,
	}
}

// RequeueAll retries all failed campaigns that f chooses now, as if they had never failed. Workers do it in
// batches: see [Operator.Operation]. Errors: [ErrNotFound] if f chooses none.
func (o Operator) RequeueAll(ctx context.Context, f Filter) (Operation, error) {
	return o.begin(ctx, "requeueManyFailed", values{
		"group": {f.Group}, "projection": {f.Projection}, "campaign": {f.CampaignID}, "type": {f.EventType},
		"class": {f.Class}, "code": {f.Code}, "fingerprint": {f.Fingerprint}, "status": f.Status, "all": {"true"},
	})
}

// Package delivery is shared by sinks' Publish: a [Gate] between calls and Close, and the [Outcome]
// of a batch.
package delivery

import (
	"github.com/tidemark-go/tidemark/pkg/publisher"

	"github.com/tidemark-go/tidemark/internal/slice"
)

// Outcome records which events of a batch failed. After a failure the later events of its campaign
// count as not tried. Of the events it keeps only the campaign ids.
type Outcome struct {
	campaigns []string            // by event
	failures  []publisher.Failure // by event; nil until the first fails
	first     map[string]int      // by campaign: the first event that failed
}

// Of returns the outcome of a batch without failures.
func Of(events []publisher.Event) *Outcome {
	return &Outcome{campaigns: slice.Of(events, func(e publisher.Event) string { return e.CampaignID })}
}

// Again returns an outcome of the same events without failures.
func (o *Outcome) Again() *Outcome { return &Outcome{campaigns: o.campaigns} }

// ByCampaign returns the indexes of each campaign's events, in order.
func (o *Outcome) ByCampaign() (campaigns [][]int) {
	known := map[string]int{}
	for i, campaign := range o.campaigns {
		n, ok := known[campaign]
		if !ok {
			n = len(campaigns)
			known[campaign], campaigns = n, append(campaigns, nil)
		}
		campaigns[n] = append(campaigns[n], i)
	}
	return campaigns
}

// Fail records that event i has failed.
func (o *Outcome) Fail(i int, err error, permanent bool) {
	if o.failures == nil {
		o.failures, o.first = make([]publisher.Failure, len(o.campaigns)), map[string]int{}
	}
	o.failures[i] = publisher.Failure{Index: i, Err: err, Permanent: permanent}
	if first, ok := o.first[o.campaigns[i]]; !ok || i < first {
		o.first[o.campaigns[i]] = i
	}
}

// Behind reports whether an earlier event of event i's campaign has failed.
func (o *Outcome) Behind(i int) bool {
	first, ok := o.first[o.campaigns[i]]
	return ok && first < i
}

// Failed reports whether event i or an earlier one of its campaign has failed.
func (o *Outcome) Failed(i int) bool {
	return o.failures != nil && (o.failures[i].Err != nil || o.Behind(i))
}

// Err returns the error for Publish: nil, or a [publisher.BatchError].
func (o *Outcome) Err() error {
	var failures []publisher.Failure
	for i, failure := range o.failures {
		switch {
		case failure.Err != nil:
			failures = append(failures, failure)
		case o.Behind(i):
			failures = append(failures, publisher.Failure{Index: i, Err: publisher.ErrNotTried})
		}
	}
	if failures == nil {
		return nil
	}
	return &publisher.BatchError{Failures: failures}
}

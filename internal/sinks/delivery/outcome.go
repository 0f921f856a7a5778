// Package delivery is what sinks share in Publish: a [Gate] between calls and Close, and the
// [Outcome] of a batch.
package delivery

import "github.com/tidemark-go/tidemark/pkg/publisher"

// Outcome says which events of a batch have failed. Once an event has failed, those after it in its
// campaign count as not tried. It refers to nothing that the events lend but the names of campaigns.
type Outcome struct {
	campaigns []string            // by event
	failures  []publisher.Failure // by event; nil until the first fails
	first     map[string]int      // by campaign: the first event that failed
}

// Of answers the outcome of a batch: no event has failed so far.
func Of(events []publisher.Event) *Outcome {
	o := &Outcome{campaigns: make([]string, len(events))}
	for i := range events {
		o.campaigns[i] = events[i].CampaignID
	}
	return o
}

// Again answers an outcome of the same events, none of which has failed so far.
func (o *Outcome) Again() *Outcome { return &Outcome{campaigns: o.campaigns} }

// ByCampaign answers the places of each campaign's events, in order.
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

// Fail says that event i has failed.
func (o *Outcome) Fail(i int, err error, permanent bool) {
	if o.failures == nil {
		o.failures, o.first = make([]publisher.Failure, len(o.campaigns)), map[string]int{}
	}
	o.failures[i] = publisher.Failure{Index: i, Err: err, Permanent: permanent}
	if first, ok := o.first[o.campaigns[i]]; !ok || i < first {
		o.first[o.campaigns[i]] = i
	}
}

// Behind tells whether an event before event i in its campaign has failed.
func (o *Outcome) Behind(i int) bool {
	first, ok := o.first[o.campaigns[i]]
	return ok && first < i
}

// Failed tells whether event i has failed, or is behind one that has.
func (o *Outcome) Failed(i int) bool {
	return o.failures != nil && (o.failures[i].Err != nil || o.Behind(i))
}

// Err is what Publish answers: nil, or a [publisher.BatchError].
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

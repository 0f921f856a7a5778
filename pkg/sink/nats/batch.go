package nats

import (
	"errors"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// batch is what becomes of the events of one Publish.
type batch struct {
	events []publisher.Event
	errs   []error
	failed map[string]int // the first of a campaign that was refused
}

func (b *batch) fail(i int, err error) {
	b.errs[i] = err
	if !b.behind(i) {
		b.failed[b.events[i].CampaignID] = i
	}
}

// behind tells whether one before event i in its campaign was refused.
func (b *batch) behind(i int) bool {
	first, ok := b.failed[b.events[i].CampaignID]
	return ok && first < i
}

// err is what Publish answers of events that were refused.
func (b *batch) err() error {
	var failures []publisher.Failure
	for i, err := range b.errs {
		if err != nil {
			failures = append(failures, publisher.Failure{Index: i, Err: err, Permanent: !errors.Is(err, publisher.ErrNotTried)})
		}
	}
	if failures == nil {
		return nil
	}
	return &publisher.BatchError{Failures: failures}
}

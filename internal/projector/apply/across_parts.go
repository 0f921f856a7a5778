package apply

import (
	"context"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// orderedParts is how many parts are sent at once: what follows a failure is sent in vain.
const orderedParts = 18

// strideInParts applies the events in order, in parts with a savepoint each. After a failure it goes
// on from the last savepoint, without the culprit and the events that wait for it.
func (t *Transaction) strideInParts(ctx context.Context, s *Stride) (held map[string]int64, err error) {
	k, causes := s.Projection, make([]error, len(s.Events))
	tasks := slice.Of(s.Events, func(e Keyed) *task { return &task{k: k, events: []event.Event{*e.Event}} })
	c, err := t.collect(ctx, k, tasks)
	if err != nil {
		return nil, err
	}
	for i, one := range tasks {
		if len(one.failed) > 0 {
			causes[i] = one.failed[0].cause
		}
	}
	k.Savepoints.Add(-1)
	t.LimitStatements(c.limit)
	t.queuePatience()
	rest := &part{
		k: k, timeout: c.limit, inOrder: true,
		Savepoint: pipeline.Savepoint{Queries: c.Batch.QueuedQueries}, origins: c.Origins[:c.Batch.Len()],
	}
	whole, again := len(rest.Queries), false
	var failed []int
	judge := func() {
		var applies []bool
		if failed, held, applies = s.judge(causes); len(failed) > 0 {
			k.Savepoints.Store(savepointsAfter)
			rest = s.without(rest, applies)
		}
	}
	for judge(); len(rest.Queries) > 0; {
		most := 1
		if k.Savepoints.Load() > 0 {
			most = mostParts * len(rest.Queries) / whole
		}
		parts, start, done := rest.cut(most), time.Now(), 0
		parts = parts[:min(len(parts), orderedParts)]
		if err := t.streamParts(ctx, parts, true); err != nil {
			return nil, err
		}
		n := slices.IndexFunc(parts, func(one *part) bool {
			if one.Cause == nil {
				done += len(one.Queries)
			}
			return one.Cause != nil
		})
		rest = rest.piece(done, len(rest.Queries))
		if n < 0 {
			again = false
			continue
		}
		one := parts[n]
		culprit := one.origins[one.Failed]
		cause := culprit.Wrap(failure.Cancelled(one.Cause, culprit.Projection, one.timeout, start))
		if t.over(ctx, cause) {
			return nil, t.Blame(cause)
		}
		if again = !again && t.passes(cause); !again {
			causes[slices.IndexFunc(s.Events, func(e Keyed) bool { return e.is(culprit) })] = cause
			judge()
		}
	}
	for _, i := range failed {
		t.failKey(k, &s.Events[i], causes[i])
	}
	return held, nil
}

// judge returns the events that have failed, the keys that these hold back, and whether each event
// applies. causes has the failure of each event.
func (s *Stride) judge(causes []error) (failed []int, held map[string]int64, applies []bool) {
	held, applies = map[string]int64{}, make([]bool, len(s.Events))
	for i, e := range s.Events {
		_, waits := held[e.Key]
		if applies[i] = causes[i] == nil && !waits; applies[i] || waits {
			continue
		}
		failed = append(failed, i)
		if !s.Projection.Skips(e.Event.Type, causes[i]) {
			held[e.Key] = e.Event.Position
		}
	}
	return failed, held, applies
}

// without returns a part without the events that do not apply.
func (s *Stride) without(p *part, applies []bool) *part {
	left, i := p.piece(0, 0), 0
	for q, origin := range p.origins {
		for !s.Events[i].is(origin) {
			i++
		}
		if applies[i] {
			left.Queries, left.origins = append(left.Queries, p.Queries[q]), append(left.origins, origin)
		}
	}
	return left
}

// is reports whether statements of the origin are for the event.
func (e Keyed) is(o pipeline.Origin) bool {
	return e.Event.Seq == o.Seq && e.Event.CampaignID == o.CampaignID
}

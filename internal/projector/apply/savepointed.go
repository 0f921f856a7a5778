package apply

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// savepointsAfter is how many groups are applied savepointed after one in which something has
// failed. Savepoints cost a few percent of a group, starting again without them costs a whole one.
// So they pay where about one group in that many fails.
const savepointsAfter = 32

// splitFrom is the least number of events in a group that is applied savepointed though nothing has failed.
const splitFrom = 512

// retried reports whether there are units of failed campaigns.
func retried(units []*Unit) bool {
	return slices.ContainsFunc(units, func(u *Unit) bool { return u.Standing != nil && u.Standing.Failed })
}

// splittable reports whether savepoints cost the group next to nothing: it is large, so a savepoint
// per projection does not count, and its statements can be cut into parts.
func (t *Transaction) splittable() bool {
	if !t.Streams || len(t.calls) > 0 || len(t.Events) < splitFrom ||
		slices.ContainsFunc(t.Units, func(u *Unit) bool { return u.Standing != nil }) {
		return false
	}
	return !slices.ContainsFunc(t.view.Projections, func(k *registry.Projection) bool {
		return t.view.Rows[k.Name].State == registry.StateActive &&
			(kind.Eventwise(k.Projection) == nil || k.Intricate.Load() || t.looksAhead())
	})
}

// applySavepointed applies as many of the units as fit in a group, in one transaction and in parts
// with a savepoint each. It finds the culprits and leaves them to their policies. Only a culprit's
// part is redone, and the rest goes on. Otherwise it is like applyBatched.
func (a *Applier) applySavepointed(ctx context.Context, units []*Unit) (n int, done []*Unit, err error) {
	t, err := a.open(ctx, units, a.Pace.Events(), nil)
	if err != nil {
		return 0, nil, err
	}
	return a.savepointed(ctx, t, true)
}

// savepointed is applySavepointed in a transaction that has read its units. Unless fenceFirst is
// set, the fence runs just before the first statement is sent, or last. A worker that waits for the
// lease then does not also wait for the handlers that queue statements.
func (a *Applier) savepointed(ctx context.Context, t *Transaction, fenceFirst bool) (n int, done []*Unit, err error) {
	defer t.Abort(ctx)
	t.Checks = true
	t.link(ctx)
	a.Cfg.OnStep(kind.StepRead)
	n = t.count()
	if fenceFirst {
		err = t.fenceAhead(ctx)
	}
	if err == nil {
		err = t.applyInParts(ctx)
	}
	if err == nil && t.marks { // a crash from here on is no projection's
		err = a.Keeper.Unmark(ctx, a.Cfg.Pool, t.Units[0].Lease)
	}
	if err != nil {
		return 0, nil, err
	}
	a.Cfg.OnStep(kind.StepApplied)
	if len(t.failures) > 0 {
		a.Cfg.OnStep(kind.StepDeferring)
	}
	if err := t.finish(ctx); err != nil {
		return 0, nil, err
	}
	a.Cfg.OnStep(kind.StepCommitted)
	t.report(ctx)
	if !t.apart {
		a.noteFailures(t)
	}
	return n, t.Units, nil
}

// noteFailures sets how many of the next groups are applied savepointed, and because of which
// projections. Retries do not count: they say nothing about events applied for the first time.
func (a *Applier) noteFailures(t *Transaction) {
	if !slices.ContainsFunc(t.Units, func(u *Unit) bool { return u.Standing == nil }) {
		return
	}
	a.Savepoints.Add(-1) // concurrent groups may go below zero, which counts as zero
	a.uncommitted.Add(-1)
	for _, k := range t.view.Projections {
		k.Savepoints.Add(-1)
		k.Slow.Add(-1)
	}
	for _, f := range t.failures {
		a.Savepoints.Store(savepointsAfter)
		t.view.Projection(f.Projection).Savepoints.Store(savepointsAfter)
	}
}

// task is the events of a campaign for a projection, or one event of a projection across campaigns.
type task struct {
	k      *registry.Projection
	unit   *Unit         // nil: across campaigns
	events []event.Event // in order; without those that failed, and those that wait for them
	failed []failedEvent // up to the first that is not skipped
}

type failedEvent struct {
	event event.Event
	cause error
}

// dropFailed takes an event that failed out of a task, and all later ones unless the projection skips it.
func (one *task) dropFailed(seq int64, cause error) (skipped bool) {
	i := slices.IndexFunc(one.events, func(e event.Event) bool { return e.Seq == seq })
	failed := failedEvent{one.events[i], cause}
	if skipped = one.k.Skips(failed.event.Type, cause); skipped {
		one.events = slices.Concat(one.events[:i], one.events[i+1:])
	} else {
		one.events = one.events[:i]
		one.failed = slices.DeleteFunc(one.failed, func(s failedEvent) bool { return byPosition(s, failed) > 0 })
	}
	one.failed = append(one.failed, failed)
	return skipped
}

// applyInParts applies the units' events to all projections. Statements that can be cut into parts
// are collected, and sent together at the end. A projection that must see the result of one
// statement before it issues the next is applied before them, by itself.
func (t *Transaction) applyInParts(ctx context.Context) error {
	var all []*task
	var collected []*collection
	for _, k := range t.view.Projections {
		tasks, err := t.tasks(ctx, k)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			continue
		}
		all = append(all, tasks...)
		c, err := t.collect(ctx, k, tasks)
		switch {
		case errors.Is(err, pipeline.ErrIntricate):
			if err = t.fenceAhead(ctx); err == nil {
				t.Use(k)
				err = t.applyTasks(ctx, k, tasks)
			}
		case err == nil:
			collected = append(collected, c)
		}
		if err != nil {
			return err
		}
	}
	if err := t.fenceOnce(ctx); err != nil {
		return err
	}
	if err := t.runParts(ctx, cutIntoParts(collected, !retried(t.Units))); err != nil {
		return err
	}
	t.useSchema(t.Applier.SearchPath)
	for _, one := range all {
		slices.SortFunc(one.failed, byPosition)
		for i := range one.failed {
			t.fail(one.k, &one.failed[i].event, one.failed[i].cause)
		}
	}
	return nil
}

// fenceAhead is fenceOnce ahead of a projection's code. The fence locks the leases until the transaction
// ends, so they are not renewed. So it runs after code that may outlast them: otherwise the work is
// dropped before a deadline counts, and is tried for ever.
func (t *Transaction) fenceAhead(ctx context.Context) error {
	a := t.Applier
	if t.apart || a.Longest+registry.Grace > a.Cfg.LeaseTTL/2 {
		return nil
	}
	return t.fenceOnce(ctx)
}

// fenceOnce runs the fence before anything is written, unless it has run or must run last.
// Afterwards no worker can take over the transaction's campaigns until it ends.
func (t *Transaction) fenceOnce(ctx context.Context) error {
	if t.fenced || t.marks {
		return nil
	}
	t.At = pipeline.Origin{}
	t.fence(t.Batch)
	t.fenced = true
	t.Sync()
	return t.Blame(t.refused(lease.Error(t.Flush(ctx))))
}

// tasks returns the events to apply to a projection. It first deletes the rows of campaigns that start over.
func (t *Transaction) tasks(ctx context.Context, k *registry.Projection) (tasks []*task, err error) {
	reset := slices.DeleteFunc(slices.Clone(t.Units), func(u *Unit) bool {
		return u.Standing == nil || !u.Standing.Reset || !t.applies(k, u)
	})
	failed, err := t.resetFailed(ctx, k, reset)
	if err != nil {
		return nil, err
	}
	for _, u := range t.Units {
		if !t.applies(k, u) || slices.Contains(failed, u) {
			continue
		}
		if one := t.task(k, u); len(one.events)+len(one.failed) > 0 {
			tasks = append(tasks, one)
		}
	}
	return tasks, nil
}

// resetFailed deletes the rows of campaigns that start over. If deleting them together fails, it
// tries them one by one, and returns those that fail.
func (t *Transaction) resetFailed(
	ctx context.Context, k *registry.Projection, units []*Unit,
) (failed []*Unit, err error) {
	if len(units) == 0 {
		return nil, nil
	}
	t.Use(k) // outside the savepoint: a rollback to it would restore the old search_path
	cause := t.savepoint(ctx, k, func() error { return t.resetRows(ctx, k, units) })
	alone := len(units) == 1
	switch {
	case cause == nil:
		return nil, nil
	case t.broken(ctx, cause), !alone && t.over(ctx, cause), alone && len(units[0].Events) == 0:
		return nil, t.Blame(cause)
	case alone:
		t.fail(k, &units[0].Events[0], cause).neverSkip()
		return units, nil
	}
	for i := range units {
		one, err := t.resetFailed(ctx, k, units[i:i+1])
		if err != nil {
			return nil, err
		}
		failed = append(failed, one...)
	}
	return failed, nil
}

// over reports whether a failure ends the transaction: no event is at fault, or a deadline has
// passed, and the campaigns are tried one at a time next.
func (t *Transaction) over(ctx context.Context, err error) bool {
	var late *failure.DeadlineError
	return errors.As(err, &late) || t.broken(ctx, err)
}

// passes reports whether the same statement may succeed at once.
func (t *Transaction) passes(cause error) bool {
	return failure.IsRollback(cause) || t.blockers == "" && failure.IsLockTimeout(cause)
}

// applyTasks applies a projection's tasks, and finds every event that fails.
func (t *Transaction) applyTasks(ctx context.Context, k *registry.Projection, tasks []*task) error {
	events := slices.Concat(slice.Of(tasks, func(one *task) []event.Event { return one.events })...)
	for len(events) > 0 {
		n, cause, err := t.find(ctx, k, kind.Events{All: events})
		if err != nil || cause == nil {
			return err
		}
		culprit := events[n]
		events = events[n+1:]
		skipped := taskOf(tasks, culprit.CampaignID).dropFailed(culprit.Seq, cause)
		if t.took >= slowFailure && !waited(cause) {
			t.putOff(k, &culprit, cause, tasks, events)
			return nil
		}
		if skipped {
			continue
		}
		for len(events) > 0 && events[0].CampaignID == culprit.CampaignID {
			events = events[1:]
		}
	}
	return nil
}

// slowFailure is how long a statement takes to fail until the rest of the group does not wait for more of its kind.
const slowFailure = time.Second

// waited reports whether a statement failed for others' locks, whose time is limited for the whole group.
func waited(cause error) bool { return failure.IsLockTimeout(cause) || failure.IsRollback(cause) }

// putOff leaves events of a projection to later groups, because the culprit took long to fail and they may take
// as long. Their campaigns wait, and count no attempt.
func (t *Transaction) putOff(
	k *registry.Projection, culprit *event.Event, cause error, tasks []*task, events []event.Event,
) {
	k.Slow.Store(savepointsAfter)
	f := t.Applier.describe(k, culprit, failure.Cause(cause))
	later := &failure.PutOffError{Code: f.Code, Message: f.Message, Fingerprint: f.Fingerprint}
	for i := range events {
		one := taskOf(tasks, events[i].CampaignID)
		if slices.ContainsFunc(one.events, func(e event.Event) bool { return e.Seq == events[i].Seq }) {
			one.dropFailed(events[i].Seq, later)
		}
	}
}

func byPosition(a, b failedEvent) int { return cmp.Compare(a.event.Position, b.event.Position) }

func taskOf(tasks []*task, campaignID string) *task {
	return tasks[slices.IndexFunc(tasks, func(one *task) bool { return one.unit.Lease.CampaignID == campaignID })]
}

// streamParts runs parts in one round trip. An error concerns all of them.
func (t *Transaction) streamParts(ctx context.Context, parts []*part, inOrder bool) error {
	saved := slice.Of(parts, func(one *part) *pipeline.Savepoint { return &one.Savepoint })
	defer t.watchLocks(ctx)()
	return t.Blame(t.StreamParts(ctx, saved, inOrder))
}

// runParts runs parts. If some fail, it runs what is left of them without the culprits.
func (t *Transaction) runParts(ctx context.Context, parts []*part) error {
	for first := true; len(parts) > 0; first = false {
		var stream []*part
		var last *registry.Projection
		for _, one := range parts {
			if one.k != last {
				last = one.k
				t.Use(one.k)
				t.LimitStatements(one.timeout)
				if t.Batch.Len() > 0 {
					stream = append(stream, &part{Savepoint: pipeline.Savepoint{Queries: t.Batch.QueuedQueries}})
					t.Reset()
				}
			}
			stream = append(stream, one)
		}
		start := time.Now()
		t.queuePatience()
		if err := t.streamParts(ctx, stream, false); err != nil {
			return err
		}
		parts = nil
		undone := map[*registry.Projection]*part{} // rolled back with a culprit; will succeed again
		for _, one := range stream {
			if one.Cause == nil {
				continue
			}
			if one.k == nil {
				return t.Blame(one.Cause)
			}
			culprit := one.origins[one.Failed]
			cause := culprit.Wrap(failure.Cancelled(one.Cause, culprit.Projection, one.timeout, start))
			if t.over(ctx, cause) {
				return t.Blame(cause)
			}
			if !one.again && t.passes(cause) {
				one.again, one.Cause = true, nil
				parts = append(parts, one)
				continue
			}
			event := one.culprit()
			before, rest := one.without(cause)
			// The time includes that of the statements before.
			if one.Took >= slowFailure*time.Duration(1+one.Failed/partStatements) && !waited(cause) {
				t.putOff(one.k, &event, cause, one.tasks, eventsOf(rest))
				rest = nil
			}
			switch together := undone[one.k]; {
			case len(before.Queries) == 0:
			case first && together != nil:
				together.Queries, together.origins = append(together.Queries, before.Queries...),
					append(together.origins, before.origins...)
			default:
				undone[one.k], parts = before, append(parts, before)
			}
			parts = append(parts, rest...)
		}
	}
	return nil
}

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
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// savepointsAfter is how many groups are applied savepointed after one in which something has failed.
// Savepoints cost a few percent of a group, beginning again without them a whole one: they pay where
// one group in about so many fails.
const savepointsAfter = 32

// splitFrom is how many events a group has, at least, that is applied savepointed though nothing has failed.
const splitFrom = 512

// retried says whether pairs that have failed are among the units.
func retried(units []*Unit) bool {
	return slices.ContainsFunc(units, func(u *Unit) bool { return u.Pair != nil && u.Pair.Failed })
}

// splittable says whether savepoints cost the group next to nothing: it is large, so a savepoint for
// each projection does not count, and what projections queue can be cut into parts.
func (t *Transaction) splittable() bool {
	if !t.Streams || len(t.calls) > 0 || len(t.Events) < splitFrom ||
		slices.ContainsFunc(t.Units, func(u *Unit) bool { return u.Pair != nil }) {
		return false
	}
	return !slices.ContainsFunc(t.view.Projections, func(k *registry.Projection) bool {
		return t.view.Rows[k.Name].State == registry.StateActive &&
			(kind.Eventwise(k.Projection) == nil || k.Intricate.Load() || t.looksAhead())
	})
}

// applySavepointed applies as many of the units as a group holds, in one transaction and in parts with
// a savepoint each: culprits are found and left to their policies, only the part that one was in is
// done again, and all else goes on. Otherwise it is like applyBatched.
func (a *Applier) applySavepointed(ctx context.Context, units []*Unit) (n int, done []*Unit, err error) {
	t, err := a.open(ctx, units, a.Pace.Events(), nil)
	if err != nil {
		return 0, nil, err
	}
	return a.savepointed(ctx, t, true)
}

// savepointed is applySavepointed in a transaction that has read its units. Unless the fence is to
// come first it goes ahead of what is sent: who waits for a lease need not wait for handlers too.
func (a *Applier) savepointed(ctx context.Context, t *Transaction, fenceFirst bool) (n int, done []*Unit, err error) {
	defer t.Abort(ctx)
	t.Checks = true
	t.link(ctx)
	a.Cfg.OnStep(kind.StepRead)
	for _, u := range t.Units {
		n += u.Count()
		u.groups++
	}
	defer func() {
		if err != nil {
			for _, u := range t.Units {
				u.groups--
			}
		}
	}()
	if fenceFirst {
		err = t.fenceOnce(ctx)
	}
	if err == nil {
		err = t.applyInParts(ctx)
	}
	if err == nil && t.marks { // no projection has caused it
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

// noteFailures decides by a group how many of the next are applied savepointed, and for the sake of
// which projections. Pairs that are tried again say nothing of what is applied for the first time.
func (a *Applier) noteFailures(t *Transaction) {
	if !slices.ContainsFunc(t.Units, func(u *Unit) bool { return u.Pair == nil }) {
		return
	}
	a.Savepoints.Add(-1) // several at once may go below zero, which is as good as zero
	a.uncommitted.Add(-1)
	for _, k := range t.view.Projections {
		k.Savepoints.Add(-1)
	}
	for _, f := range t.failures {
		a.Savepoints.Store(savepointsAfter)
		t.view.Projection(f.Projection).Savepoints.Store(savepointsAfter)
	}
}

// task is what a unit has for a projection.
type task struct {
	k      *registry.Projection
	unit   *Unit
	events []journal.Event // in order; without those that have failed, and those that wait for them
	failed []failedEvent   // those that have failed, unless an earlier one does
}

// failedEvent is an event that has failed.
type failedEvent struct {
	event journal.Event
	cause error
}

// dropFailed takes an event, which has failed, out of a task, and all that follow unless the projection skips it.
func (one *task) dropFailed(seq int64, cause error) (skipped bool) {
	i := slices.IndexFunc(one.events, func(e journal.Event) bool { return e.Seq == seq })
	failed := failedEvent{one.events[i], cause}
	if skipped = one.k.Skips(failed.event.Type, cause); skipped {
		one.events = slices.Concat(one.events[:i], one.events[i+1:])
	} else {
		one.events = one.events[:i]
		one.failed = slices.DeleteFunc(one.failed, func(s failedEvent) bool { return s.event.Seq > seq })
	}
	one.failed = append(one.failed, failed)
	return skipped
}

// applyInParts applies the units' events to all projections. What can be cut into parts is sent when
// all of it is there; projections that must see what became of one statement before they come to the
// next are applied before, each by itself.
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
		case errors.Is(err, kind.ErrIntricate):
			if err = t.fenceOnce(ctx); err == nil {
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
		slices.SortFunc(one.failed, func(a, b failedEvent) int { return cmp.Compare(a.event.Seq, b.event.Seq) })
		for i := range one.failed {
			t.fail(one.k, &one.failed[i].event, one.failed[i].cause)
		}
	}
	return nil
}

// fenceOnce runs the fence before anything is written, unless it stands or is to come last. Afterwards
// no worker can take over what the transaction holds until it ends.
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

// tasks answers what there is to apply to a projection, and begins anew those of its pairs that are to.
func (t *Transaction) tasks(ctx context.Context, k *registry.Projection) (tasks []*task, err error) {
	var reset []*Unit
	for _, u := range t.Units {
		if u.Pair != nil && u.Pair.Reset && t.applies(k, u) {
			reset = append(reset, u)
		}
	}
	failed, err := t.resetPairs(ctx, k, reset)
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

// resetPairs deletes the rows of pairs that begin anew, and answers those of which that failed: if it
// does of all of them, they are tried one by one.
func (t *Transaction) resetPairs(
	ctx context.Context, k *registry.Projection, units []*Unit,
) (failed []*Unit, err error) {
	if len(units) == 0 {
		return nil, nil
	}
	t.Use(k) // outside the savepoint: going back to it would put it back too
	cause := t.savepoint(ctx, k, func() error { return t.resetRows(ctx, k, units) })
	alone := len(units) == 1
	switch {
	case cause == nil:
		return nil, nil
	case t.broken(ctx, k, cause), !alone && t.over(ctx, k, cause), alone && len(units[0].Events) == 0:
		return nil, t.Blame(cause)
	case alone:
		t.failReset(k, &units[0].Events[0], cause)
		return units, nil
	}
	for i := range units {
		one, err := t.resetPairs(ctx, k, units[i:i+1])
		if err != nil {
			return nil, err
		}
		failed = append(failed, one...)
	}
	return failed, nil
}

// over says whether a failure ends the transaction: it is broken, or the failure has no culprit, or
// a campaign took so long that they are tried one campaign at a time.
func (t *Transaction) over(ctx context.Context, k *registry.Projection, err error) bool {
	var late *failure.DeadlineError
	return errors.As(err, &late) || t.broken(ctx, k, err)
}

// applyTasks applies what a projection has to do, and finds all that fails.
func (t *Transaction) applyTasks(ctx context.Context, k *registry.Projection, tasks []*task) error {
	var events []journal.Event
	for _, one := range tasks {
		events = append(events, one.events...)
	}
	for len(events) > 0 {
		n, cause, err := t.find(ctx, k, events)
		if err != nil || cause == nil {
			return err
		}
		culprit := events[n]
		events = events[n+1:]
		if taskOf(tasks, culprit.CampaignID).dropFailed(culprit.Seq, cause) {
			continue
		}
		for len(events) > 0 && events[0].CampaignID == culprit.CampaignID {
			events = events[1:]
		}
	}
	return nil
}

// taskOf is what there is to do in a campaign.
func taskOf(tasks []*task, campaignID string) *task {
	return tasks[slices.IndexFunc(tasks, func(one *task) bool { return one.unit.Lease.CampaignID == campaignID })]
}

// runParts runs parts, and what is left of those that fail without their culprits.
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
		saved := make([]*pipeline.Savepoint, len(stream))
		for i, one := range stream {
			saved[i] = &one.Savepoint
		}
		start := time.Now()
		t.queuePatience()
		stop := t.watchLocks(ctx)
		err := t.StreamParts(ctx, saved)
		stop()
		if err != nil {
			return t.Blame(err)
		}
		parts = nil
		undone := map[*registry.Projection]*part{} // what went well and was undone with what did not: it will go well again
		for _, one := range stream {
			if one.Cause == nil {
				continue
			}
			if one.k == nil {
				return t.Blame(one.Cause)
			}
			culprit := one.origins[one.Failed]
			cause := culprit.Wrap(failure.Cancelled(one.Cause, culprit.Projection, one.timeout, start))
			if t.over(ctx, one.k, cause) {
				return t.Blame(cause)
			}
			if !one.again && t.blockers == "" && failure.IsLockTimeout(cause) {
				one.again, one.Cause = true, nil
				parts = append(parts, one)
				continue
			}
			before, rest := one.without(cause)
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

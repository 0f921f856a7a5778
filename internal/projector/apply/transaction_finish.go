package apply

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

// fence queues the fenced update of the units' leases: their new checkpoints, and whether they are
// given back. Units without more to do give their lease back; those with more give it back if the
// transaction has them yield.
func (t *Transaction) fence(batch *pgx.Batch) {
	// One step a lease: several pairs of one campaign share it.
	steps := make([]lease.Step, 0, len(t.Units))
	for i, u := range t.Units {
		release := !u.More || t.yield(u)
		if i > 0 && t.Units[i-1].Lease.CampaignID == u.Lease.CampaignID {
			steps[len(steps)-1].Release = steps[len(steps)-1].Release && release
			continue
		}
		steps = append(steps, u.step(release))
	}
	t.Applier.Keeper.Advance(batch, steps)
}

// refused counts what the fence has refused.
func (t *Transaction) refused(err error) error {
	if errors.Is(err, lease.ErrLost) {
		t.Applier.Metrics.Leases.Rejected.Inc()
	}
	return err
}

// finish writes what follows from the events, and ends the transaction, in one round trip with
// whatever is queued. The fence goes ahead of that: ApplyInline locks leases before the
// projections' rows too. Only what [Group.Tx] has sent comes before it.
func (t *Transaction) finish(ctx context.Context) error {
	t.At = pipeline.Origin{}
	t.LimitStatements(t.Applier.Longest) // what follows is no projection's
	if t.patient {
		t.Queue(pipeline.QueryPatienceAgain)
	}
	t.writeFailures()
	t.filePairs()
	t.movePairs()
	t.survived()
	var done []string
	var upTo []int64
	for _, u := range t.Units {
		if u.Pair == nil {
			done, upTo = append(done, u.Lease.CampaignID), append(upTo, u.Last())
		}
	}
	t.Sync()
	if len(done) > 0 {
		outbox.Complete(t.Batch, t.Applier.Cfg.ConsumerGroup, done, upTo)
	}
	t.end()
	t.Sync()
	if !t.fenced {
		ahead := &pgx.Batch{}
		t.fence(ahead)
		t.Batch.QueuedQueries = slices.Insert(t.Batch.QueuedQueries, 0, ahead.QueuedQueries...)
		t.Origins = slices.Insert(t.Origins, 0, make([]pipeline.Origin, len(ahead.QueuedQueries))...)
	}
	if err := t.refused(lease.Error(t.Flush(ctx))); err != nil {
		t.Applier.notCommitted(ctx, err)
		return t.Blame(err)
	}
	if t.last == nil {
		t.countThrough()
	}
	for _, u := range t.Units {
		u.settle()
	}
	return nil
}

// countThrough counts, for each projection, the events that it has gone through in what has just
// been committed: without those that were skipped, and up to the one that stopped it.
func (t *Transaction) countThrough() {
	for _, k := range t.view.Projections {
		n := 0
		for _, u := range t.Units {
			if t.applies(k, u) {
				n += u.Count()
			}
		}
		if n -= t.stopped(k); n > 0 {
			t.Applier.Metrics.Projections.Through.WithLabelValues(k.Name).Add(float64(n))
		}
	}
}

func (t *Transaction) end() {
	if t.last != nil {
		t.last()
		return
	}
	t.Queue(QueryCommit)
}

// filePairs files the campaigns that move for every projection of the group that does not move with
// them: one that is joining or paused, and one that this worker does not know in the version
// registered.
func (t *Transaction) filePairs() {
	var filed []failed.Standing
	for i := range t.view.Registry {
		r := &t.view.Registry[i]
		if r.State == registry.StateRequested || r.Moves() && t.view.Projection(r.Name) != nil {
			continue
		}
		for _, u := range t.Units {
			if u.Pair != nil || u.Count() == 0 || t.pairs[u.Lease.CampaignID][r.Name] != nil {
				continue
			}
			pair := failed.Standing{CampaignID: u.Lease.CampaignID, Projection: r.Name, NextSeq: u.Place + 1}
			if r.State != registry.StateActive {
				pair.NextSeq, pair.Reset = 1, r.State != registry.StateJoining // what has been copied of it is done again
			}
			if r.Moves() && !t.Applier.Draining && t.Applier.Foreign(r) {
				pair.Wait = handOver
			}
			filed = append(filed, pair)
		}
	}
	if len(filed) > 0 {
		t.Sync()
		failed.File(t.Batch, t.Applier.Cfg.ConsumerGroup, filed)
	}
}

// movePairs moves the pairs of catch-up units, and removes those that have caught up.
func (t *Transaction) movePairs() {
	var moved, caughtUp []failed.Standing
	for _, u := range t.Units {
		if u.Pair == nil || u.outdated {
			continue
		}
		if t.hasFailed(u) {
			u.More = u.More && !yields(u) // one that has been given back has nothing to do until it is due
			continue
		}
		now := failed.Standing{CampaignID: u.Lease.CampaignID, Projection: u.Pair.Projection, NextSeq: u.Last() + 1}
		if u.More {
			moved = append(moved, now)
		} else {
			caughtUp = append(caughtUp, now)
		}
	}
	t.Sync()
	if len(moved) > 0 {
		failed.Move(t.Batch, moved)
	}
	if len(caughtUp) > 0 {
		failed.Finish(t.Batch, caughtUp)
	}
}

// handOver is how long a pair waits that a worker files for a projection of its group that its program
// does not have. Events that arrive meanwhile share the row: without the wait each event of a campaign
// would write one and remove it.
const handOver = time.Second

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

// fence queues the fenced update of the units' leases: their new checkpoints, and which are given
// back. A unit gives its lease back if it has no more to do, or if t.yield says so.
func (t *Transaction) fence(batch *pgx.Batch) {
	// One step per lease: units of one campaign share it.
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

func (t *Transaction) refused(err error) error {
	if errors.Is(err, lease.ErrLost) {
		t.Applier.Metrics.Leases.Rejected.Inc()
	}
	return err
}

// finish writes what follows from the events and ends the transaction, in one round trip with what
// is queued. The fence goes first: ApplyInline also locks leases before the projections' rows. Only
// statements that [Group.Tx] has sent come before it.
func (t *Transaction) finish(ctx context.Context) error {
	t.At = pipeline.Origin{}
	t.LimitStatements(t.Applier.Longest) // the next statements belong to no projection
	if t.patient {
		t.Queue(pipeline.QueryPatienceAgain)
	}
	t.writeFailures()
	t.fileFailed()
	t.moveFailed()
	t.survived()
	var done []string
	var from, upTo []int64
	for _, u := range t.Units {
		if u.Standing == nil {
			done, from, upTo = append(done, u.Lease.CampaignID), append(from, u.Lease.Checkpoint), append(upTo, u.Last())
		}
	}
	t.Sync()
	if len(done) > 0 {
		outbox.Complete(t.Batch, t.Applier.Cfg.ConsumerGroup, done, from, upTo)
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
		t.notCommitted(ctx, err)
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

// countThrough counts the events that each projection got through in the last commit, without those
// that were skipped, and up to the one that stopped it.
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
	lease.Tell(t.Batch)
	if t.last != nil {
		t.last()
		return
	}
	t.Queue(QueryCommit)
}

// fileFailed defers the campaigns that move, for every projection of the group that does not move
// with them: it is not active yet, it is paused, or this worker lacks its registered version.
func (t *Transaction) fileFailed() {
	var filed []failed.Standing
	for i := range t.view.Registry {
		r := &t.view.Registry[i]
		if r.Across || r.State == registry.StateRequested || r.Moves() && t.view.Projection(r.Name) != nil {
			continue
		}
		for _, u := range t.Units {
			if u.Standing != nil || u.Count() == 0 || t.standings[u.Lease.CampaignID][r.Name] != nil {
				continue
			}
			standing := failed.Standing{CampaignID: u.Lease.CampaignID, Projection: r.Name, NextSeq: u.Place + 1}
			if r.State != registry.StateActive {
				standing.NextSeq, standing.Reset = 1, r.State != registry.StateJoining // rows that were copied are made again
			}
			if r.Moves() && !t.Applier.Draining && t.Applier.Foreign(r) {
				standing.Wait = handOver
			}
			filed = append(filed, standing)
		}
	}
	if len(filed) > 0 {
		t.Sync()
		failed.File(t.Batch, t.Applier.Cfg.ConsumerGroup, filed)
	}
}

// moveFailed moves the campaigns that are behind of catch-up units, and removes those that have caught up.
func (t *Transaction) moveFailed() {
	var moved, caughtUp []failed.Standing
	for _, u := range t.Units {
		if u.Standing == nil || u.outdated {
			continue
		}
		if t.hasFailed(u) {
			u.More = u.More && !yields(u) // one that was given back has nothing to do until it is due
			continue
		}
		now := failed.Standing{CampaignID: u.Lease.CampaignID, Projection: u.Standing.Projection, NextSeq: u.Last() + 1}
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

// handOver delays a campaign that a worker defers for a projection its program does not have.
// Events that arrive meanwhile share the row, or each would write one and remove it.
const handOver = time.Second

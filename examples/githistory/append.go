package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// batchEvents is how many events go to the journal in one call. It is also the minimum of a
// transaction, except at the end of the history.
const batchEvents = 4000

// batchCampaigns ends a transaction after the commit that reaches this many campaigns. The journal
// accepts 1,000 in one, and the last commit may add some hundred more.
const batchCampaigns = 500

// historyProgress is the payload of history_read. The event is appended in the same transaction as
// the events of the commits it covers: either the journal holds all of them and records it, or it
// holds none.
type historyProgress struct {
	Commit  string `json:"commit"`  // the last commit read
	Commits int64  `json:"commits"` // number of commits read up to it
}

// appender appends the history of one repository to the journal.
type appender struct {
	pool       *pgxpool.Pool
	repository *repository
	translator translator
	report     func(commits, events int64) // called after each transaction with the totals of this run

	seq  int64           // of the last history_read event
	read historyProgress // content of that event
}

// resume reads how far an earlier run came.
func (a *appender) resume(ctx context.Context) error {
	log := a.translator.campaigns.log()
	for e, err := range journal.ReadCampaign(ctx, a.pool, log, 0) {
		if err != nil {
			return fmt.Errorf("read campaign %q: %w", log, err)
		}
		read, err := event.Decode[historyProgress](e)
		if err != nil {
			return fmt.Errorf("read campaign %q: %w", log, err)
		}
		a.seq, a.read = e.Seq, read
	}
	if a.read.Commit == "" {
		return nil
	}
	known, err := a.repository.has(ctx, a.read.Commit)
	if err != nil {
		return fmt.Errorf("look for commit %s: %w", a.read.Commit, err)
	}
	if !known {
		return fmt.Errorf("commit %s, where the last run stopped, is no longer in %q: read the history afresh under "+
			"another -name",
			a.read.Commit, a.repository.dir)
	}
	return nil
}

// run appends every commit from where the last run stopped to HEAD. A transaction holds many
// commits, always whole ones.
func (a *appender) run(ctx context.Context) error {
	next, stop := iter.Pull2(a.repository.history(ctx, a.read.Commit))
	defer stop()
	var commits, events int64
	for more := true; more; {
		batch := &transaction{appender: a, read: a.read, campaigns: map[string]bool{}}
		err := pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) (err error) {
			more, err = batch.fill(ctx, tx, next)
			return err
		})
		if errors.Is(err, journal.ErrVersionConflict) || errors.Is(err, journal.ErrPartlyAppended) {
			return fmt.Errorf("another run is reading %q at this moment: %w", a.repository.dir, err)
		}
		if errors.Is(err, journal.ErrTooManyCampaigns) {
			return fmt.Errorf("commit %s changes files in %d folders or more: use a smaller -depth, or raise "+
				"campaigns_per_transaction of tidemark.limits: %w",
				batch.read.Commit, len(batch.campaigns), err)
		}
		if err != nil {
			return fmt.Errorf("append commits: %w", err)
		}
		commits += batch.read.Commits - a.read.Commits
		events += batch.events
		if batch.read != a.read {
			a.read = batch.read
			a.seq++
		}
		a.report(commits, events)
	}
	return nil
}

// transaction holds the commits appended in one transaction.
type transaction struct {
	*appender
	read    historyProgress
	events  int64                    // appended so far
	pending map[string][]event.Event // by campaign, in commit order
	waiting int                      // number of pending events

	campaigns map[string]bool // campaigns with events in it
}

// fill appends commits until the transaction holds enough events or next has no more commits. more
// reports whether there may be more.
func (t *transaction) fill(ctx context.Context, tx pgx.Tx, next func() (commit, error, bool)) (more bool, err error) {
	for t.events+int64(t.waiting) < batchEvents && len(t.campaigns) < batchCampaigns {
		c, err, ok := next()
		if err != nil {
			return false, err
		}
		if !ok {
			return false, t.finish(ctx, tx)
		}
		t.read = historyProgress{Commit: c.hash, Commits: t.read.Commits + 1}
		for ch, err := range c.changes {
			if err != nil {
				return false, fmt.Errorf("read commit %s: %w", c.hash, err)
			}
			if err := t.add(ctx, tx, c, ch); err != nil {
				return false, err
			}
		}
	}
	return true, t.finish(ctx, tx)
}

func (t *transaction) add(ctx context.Context, tx pgx.Tx, c commit, ch change) error {
	events, err := t.translator.events(c, t.read.Commits, ch)
	if err != nil {
		return err
	}
	for _, e := range events {
		if t.pending == nil {
			t.pending = make(map[string][]event.Event)
		}
		t.campaigns[e.campaign] = true
		t.pending[e.campaign] = append(t.pending[e.campaign], e.event)
		t.waiting++
	}
	if t.waiting < batchEvents {
		return nil
	}
	return t.flush(ctx, tx)
}

// flush appends the pending events. A commit of any size is appended in pieces.
func (t *transaction) flush(ctx context.Context, tx pgx.Tx, more ...journal.Batch) error {
	batches := more
	for _, campaign := range slices.Sorted(maps.Keys(t.pending)) {
		batches = append(batches, journal.Batch{CampaignID: campaign, Events: t.pending[campaign]})
	}
	if len(batches) == 0 {
		return nil
	}
	if _, err := (journal.Journal{}).AppendAll(ctx, tx, batches...); err != nil {
		return err
	}
	t.events += int64(t.waiting)
	t.pending, t.waiting = nil, 0
	return nil
}

// finish appends the rest and records how far the history is read, provided that no other run has
// read further. A second run on the same repository appends the same events, which adds nothing, or
// is refused. It never adds other events.
func (t *transaction) finish(ctx context.Context, tx pgx.Tx) error {
	if t.read == t.appender.read {
		return nil
	}
	payload, err := json.Marshal(t.read)
	if err != nil {
		return fmt.Errorf("encode %s: %w", historyRead, err)
	}
	log := t.translator.campaigns.log()
	return t.flush(ctx, tx, journal.Batch{
		CampaignID: log,
		Expect:     journal.Exactly(t.seq),
		Events: []event.Event{{
			ID:      eventID(log, t.read.Commits, t.read.Commit, historyRead, ""),
			Type:    historyRead,
			Intent:  event.ReplayOnly,
			Payload: payload,
		}},
	})
}

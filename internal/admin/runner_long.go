package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// differing is the maximum number of differing campaigns that a verification keeps.
const differing = 1000

// errEnded is the cancel cause when the operation was aborted or taken over.
var errEnded = errors.New("the operation has ended, or another worker runs it now")

// long does a verification or a replay to a publisher, under a lease instead of a transaction.
func (r *Runner) long(ctx context.Context) (bool, error) {
	for kind, here := range map[OperationKind][]string{OpVerify: r.projections(), OpRepublish: r.publishers()} {
		if len(here) == 0 && kind != OpVerify {
			continue
		}
		if worked, err := r.take(ctx, kind, here); worked || err != nil {
			return worked, err
		}
	}
	return false, nil
}

// take leases and does an operation for one of the projections or publishers in here. It reports whether
// there was any.
func (r *Runner) take(ctx context.Context, kind OperationKind, here []string) (bool, error) {
	var id int64
	err := r.cfg.Pool.QueryRow(ctx, queryLeaseOperation, []string{string(kind)}, r.cfg.Owner, operationLease,
		here).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for operations: %w", err)
	}
	o, err := readOperation(ctx, r.cfg.Pool, id)
	if err != nil {
		return false, err
	}
	return true, r.underLease(ctx, *o)
}

func (r *Runner) projections() []string {
	if r.cfg.Projector == nil {
		return nil
	}
	return slices.Concat(r.cfg.Projector.Followed(), r.cfg.Projections)
}

func (r *Runner) publishers() []string {
	return slice.Of(r.cfg.Publishers, func(p publisher.Publisher) string { return p.Name })
}

// underLease does the operation and renews the lease in the background.
func (r *Runner) underLease(ctx context.Context, o Operation) error {
	working, end := context.WithCancelCause(ctx)
	p := &progress{total: o.Total}
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		tick := time.NewTicker(operationLease / 15)
		defer tick.Stop()
		for {
			select {
			case <-working.Done():
				return
			case <-tick.C:
				if err := r.keep(working, o.ID, p); errors.Is(err, errEnded) {
					end(err)
				}
			}
		}
	}()
	var err error
	switch o.Kind {
	case OpVerify:
		err = r.verify(working, o, p)
	case OpRollback:
		err = r.rollBack(working, o)
	default:
		err = r.republish(working, o, p)
	}
	ended := errors.Is(context.Cause(working), errEnded)
	end(nil)
	<-renewed
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if kept := r.keep(bounded, o.ID, p); ended || errors.Is(kept, errEnded) {
		return nil
	}
	switch {
	case ctx.Err() != nil: // shutdown: another worker continues
		_, _ = r.cfg.Pool.Exec(bounded, queryFreeOperation, o.ID, r.cfg.Owner)
		return nil
	case err != nil:
		return r.fault(ctx, o, err)
	}
	_, err = r.cfg.Pool.Exec(ctx, queryFinish, o.ID, "done", "")
	return err
}

// progress is written with each renewal of the lease.
type progress struct {
	mu                           sync.Mutex
	doc                          []byte
	total, done, skipped, failed int64
}

func (p *progress) set(doc any, total, done, skipped, failed int64) {
	text, err := json.Marshal(doc)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.doc = text
	}
	p.total, p.done, p.skipped, p.failed = total, done, skipped, failed
}

func (r *Runner) keep(ctx context.Context, id int64, p *progress) error {
	p.mu.Lock()
	doc, total, done, skipped, failed := p.doc, p.total, p.done, p.skipped, p.failed
	p.mu.Unlock()
	tag, err := r.cfg.Pool.Exec(ctx, queryKeepOperation, id, r.cfg.Owner, operationLease, document(doc), total, done,
		skipped, failed)
	if err == nil && tag.RowsAffected() == 0 {
		return errEnded
	}
	return err
}

func (r *Runner) verify(ctx context.Context, o Operation, p *progress) error {
	v, err := read[Verification](o)
	if err != nil {
		return err
	}
	if v.Proof {
		return r.prove(ctx, o, v, p)
	}
	var differ []string
	report, err := r.cfg.Projector.Verify(ctx, lookback.VerifyRequest{
		Projection: v.Projection, Campaigns: v.Campaigns, Sample: v.Sample, All: len(v.Campaigns) == 0 && v.Sample == 0,
		Ignore: v.Ignore, Concurrency: 1,
		OnCampaign: func(id string) {
			if len(differ) < differing {
				differ = append(differ, id)
			}
		},
		OnProgress: func(now lookback.VerifyReport) { p.set(now, now.Total, now.Campaigns, now.Skipped, now.Differing) },
	})
	if err != nil {
		return err
	}
	p.set(report, report.Total, report.Campaigns, report.Skipped, report.Differing)
	items := slice.Of(differ, func(id string) Item {
		return Item{CampaignID: id, Subject: v.Projection, Detail: "its rows differ from what the journal says"}
	})
	return r.keepFailed(ctx, o, items)
}

// keepFailed writes findings as failed items of the operation.
func (r *Runner) keepFailed(ctx context.Context, o Operation, items []Item) error {
	for i, item := range items {
		if _, err := r.cfg.Pool.Exec(ctx, queryAddItem, o.ID, int64(i+1), item.CampaignID, item.Subject, item.Seq,
			item.Detail); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) prove(ctx context.Context, o Operation, v Verification, p *progress) error {
	var differ []Item
	proof, err := Prove(ctx, r.cfg.Pool, v.Projection, func(u lease.Unproved) {
		if len(differ) == differing {
			return
		}
		found := fmt.Sprintf("%d events were applied up to seq %d, and the journal has %d", u.Applied, u.Checkpoint,
			u.Journal)
		if u.Applied == u.Journal {
			found = fmt.Sprintf("the %d events applied up to seq %d are not those of the journal", u.Applied,
				u.Checkpoint)
		}
		differ = append(differ,
			Item{CampaignID: u.CampaignID, Subject: v.Projection, Seq: u.Checkpoint, Detail: found})
	})
	if errors.Is(err, rebuild.ErrUnknownProjection) {
		return errPermanent{err}
	}
	if err != nil {
		return err
	}
	p.set(proof, proof.Campaigns, proof.Campaigns, 0, proof.Differing)
	return r.keepFailed(ctx, o, differ)
}

// sent is the progress of a replay to a publisher.
type sent struct {
	Through int64 `json:"through"` // last seq sent
	Sent    int64 `json:"sent"`    // events
}

func (r *Runner) republish(ctx context.Context, o Operation, p *progress) error {
	q, err := read[Republication](o)
	if err != nil {
		return err
	}
	before := sent{Through: q.From - 1}
	if o.Progress != nil {
		if err := json.Unmarshal(o.Progress, &before); err != nil {
			return errPermanent{err}
		}
	}
	replay, here := q.here(r.cfg.Topics, r.cfg.Publishers)
	if !here {
		return errPermanent{fmt.Errorf("topic %q: %w", q.Topic, ErrNotHere)}
	}
	replay.By, replay.Reason = o.By, o.signed()
	replay.From, replay.Catalogue = before.Through+1, r.cfg.Catalogue
	if q.Until != 0 && replay.From > q.Until {
		return nil
	}
	replay.Progress = func(seq, n int64) { p.set(sent{seq, before.Sent + n}, 0, before.Sent+n, 0, 0) }
	result, err := publisher.Replay(ctx, r.cfg.Pool, replay)
	if result.Through >= replay.From {
		p.set(sent{result.Through, before.Sent + result.Sent}, 0, before.Sent+result.Sent, 0, 0)
	}
	if err != nil && ctx.Err() == nil {
		return errPermanent{err}
	}
	return err
}

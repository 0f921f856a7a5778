package apply

import (
	"context"
	"errors"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

const (
	// deadly is how many processes must have died with a campaign, at one place, before an event is given
	// up, and deadlyMarked how many of them when they had said, of that event or its campaign, that they
	// were at it alone. The first one has said nothing.
	deadly       = 3
	deadlyMarked = deadly - 1

	// certain is how many deaths under the mark decide whatever else is dying: one event is not hit by chance so often.
	certain = 4
)

// Together runs what applies a group. Groups run side by side, but for suspects: should one end the
// process, it is to be known that it was that one.
func (a *Applier) Together(apply func() error) error {
	a.alone.RLock()
	defer a.alone.RUnlock()
	return apply()
}

// convicted says whether the event that the last dead process had named has killed it.
func convicted(s *lease.Suspect) bool {
	return s.Projection != "" && s.Crashes >= deadly && s.Deaths >= deadlyMarked &&
		(s.Deaths >= s.Unexplained || s.Deaths >= certain)
}

// ApplySuspect applies the units of one suspect campaign while nothing else is applied in this
// process: as one group, or event by event and projection by projection if that has cost a process
// before. What it does not reach it gives back.
func (a *Applier) ApplySuspect(ctx context.Context, units []*Unit) error {
	a.alone.Lock()
	defer a.alone.Unlock()
	owned, s := units[0].Lease, units[0].Lease.Suspect
	log := a.Cfg.Logger.With("campaign", owned.CampaignID, "crashes", s.Crashes)
	// It is survived, whatever comes of it. If the database cannot be told, the worker's next beat takes
	// its name off the list of the dead, and with it the mark's meaning.
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), registry.ReleaseTimeout)
		defer cancel()
		if err := a.Keeper.Unmark(bounded, a.Cfg.Pool, owned); err != nil {
			log.WarnContext(ctx, "mark not removed", "error", err)
		}
	}()
	if s.Marked == 0 {
		log.InfoContext(ctx, "a process died with the campaign in its hands, applying it alone")
		return a.applyMarked(ctx, units)
	}
	log.WarnContext(ctx, "campaign has cost several processes, applying it alone and one by one", "marked", s.Marked)
	verdicts := map[failure.Verdict]error{}
	if convicted(s) {
		at := failure.Verdict{Projection: s.Projection, CampaignID: owned.CampaignID, Seq: s.Seq}
		verdicts[at] = &failure.CrashError{Crashes: s.Crashes, Alone: s.Deaths}
	}
	ctx, span := a.Tracer.Start(ctx)
	n, err := a.applyCampaignInTime(ctx, units, a.Pace.Events(), verdicts, true)
	span.End(n, err)
	if errors.Is(err, lease.ErrLost) {
		a.leaseLost(ctx, units[0])
		return nil
	}
	if err != nil {
		a.Pace.shrink()
		return err
	}
	a.succeeded(ctx, n)
	return nil
}

// applyMarked applies the units of one campaign as a group of its own under a mark that names the campaign.
func (a *Applier) applyMarked(ctx context.Context, units []*Unit) error {
	err := a.Keeper.Mark(ctx, a.Cfg.Pool, units[0].Lease, "", 0)
	if errors.Is(err, lease.ErrLost) {
		return nil
	}
	if err != nil {
		return err
	}
	rest, err := a.Group(ctx, units, nil)
	if err == nil && len(rest) > 0 {
		a.Holder.GiveBack(ctx, rest)
	}
	return err
}

// survived queues that the campaigns that get further with the transaction are not suspects.
func (t *Transaction) survived() {
	var ids []string
	for _, u := range t.Units {
		if u.Lease.Suspect != nil {
			ids = append(ids, u.Lease.CampaignID)
		}
	}
	if len(ids) == 0 {
		return
	}
	t.Sync()
	for _, f := range t.failures {
		if f.Code == failure.CodeCrash {
			t.Applier.Keeper.Explained(t.Batch, f.CampaignID)
		}
	}
	t.Applier.Keeper.Survived(t.Batch, ids)
}

package apply

import (
	"context"
	"errors"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

const (
	// deadly is how many processes must have died with a campaign, at one place, before an event is
	// given up. deadlyMarked of them must have died alone with that event or its campaign, as their
	// mark said. The first one has set no mark.
	deadly       = 3
	deadlyMarked = deadly - 1

	// certain is how many deaths under the mark decide, whatever else dies: that many are no chance.
	certain = 4
)

// Together runs apply for a group. Groups run side by side, but never beside a suspect: if the
// suspect ends the process, nothing else can be to blame.
func (a *Applier) Together(apply func() error) error {
	a.alone.RLock()
	defer a.alone.RUnlock()
	return apply()
}

// Alone runs apply while this process applies nothing else.
func (a *Applier) Alone(apply func() error) error {
	a.alone.Lock()
	defer a.alone.Unlock()
	return apply()
}

// convicted reports whether the event that the last dead process had marked has killed it.
func convicted(s *lease.Suspect) bool {
	return s.Projection != "" && s.Crashes >= deadly && s.Deaths >= deadlyMarked &&
		(s.Deaths >= s.Unexplained || s.Deaths >= certain)
}

// ApplySuspect applies the units of one suspect campaign while this process applies nothing else.
// It applies them as one group, or event by event and projection by projection if a process has
// died under a mark before. It gives back what it does not reach.
func (a *Applier) ApplySuspect(ctx context.Context, units []*Unit) error {
	a.alone.Lock()
	defer a.alone.Unlock()
	owned, s := units[0].Lease, units[0].Lease.Suspect
	log := a.Cfg.Logger.With("campaign", owned.CampaignID, "crashes", s.Crashes)
	// The process has survived, whatever the outcome. If Unmark fails, the worker's next beat takes
	// its name off the list of the dead, which voids the mark.
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), registry.ReleaseTimeout)
		defer cancel()
		if err := a.Keeper.Unmark(bounded, a.Cfg.Pool, owned); err != nil {
			log.WarnContext(ctx, "mark not removed", "error", err)
		}
	}()
	if s.Marked == 0 {
		log.InfoContext(ctx, "a process died while it held the campaign, applying it alone")
		return a.applyMarked(ctx, units)
	}
	log.WarnContext(ctx, "several processes died while they held the campaign, applying its events one by one",
		"marked", s.Marked)
	how := &solo{events: a.Pace.Events(), verdicts: map[failure.Verdict]error{}, marked: true}
	if convicted(s) {
		at := failure.Verdict{Projection: s.Projection, CampaignID: owned.CampaignID, Seq: s.Seq}
		how.verdicts[at] = &failure.CrashError{Crashes: s.Crashes, Alone: s.Deaths}
	}
	ctx, span := a.Tracer.Start(ctx)
	n, err := a.applyCampaignInTime(ctx, units, how)
	for slow, ok := errors.AsType[*SlowReadError](err); ok && a.patient(ctx, how, slow); {
		n, err = a.applyCampaignInTime(ctx, units, how)
		slow, ok = errors.AsType[*SlowReadError](err)
	}
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

// applyMarked applies the units of one campaign as one group, under a mark that names the campaign.
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

// survived queues that the campaigns which the transaction moves are no longer suspects.
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

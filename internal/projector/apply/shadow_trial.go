package apply

import (
	"context"
	"slices"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// trial is campaigns that a shadow tries in one go, under a name that outlives the process: all
// that no worker has died of, or a single one that a worker has.
type trial struct {
	units  []*Unit
	record lease.Trial
	ended  bool // all of it has been tried
}

// suspect says whether processes have died of it.
func (t *trial) suspect() bool { return t.record.Crashes > 0 }

// convicted says whether an event is left out: one process has died of the campaign, and two more
// when they had named the event.
func (t *trial) convicted() bool {
	return t.record.Crashes >= deadly && t.record.Deaths >= deadlyMarked
}

func (t *trial) campaigns() (ids []string) {
	for _, u := range t.units {
		ids = append(ids, u.Lease.CampaignID)
	}
	return slices.Compact(ids)
}

// trials names the campaigns of units, and parts those that processes have died of from the others.
func (s *shadow) trials(ctx context.Context, units []*Unit) ([]*trial, error) {
	all := &trial{units: units}
	if len(units) == 0 {
		return nil, nil
	}
	whole, cancel := s.p.Whole(ctx)
	defer cancel()
	records, err := s.p.Keeper.Try(whole, s.p.Cfg.Pool, all.campaigns())
	if err != nil || len(records) == 0 {
		return []*trial{all}, err
	}
	trials := []*trial{{}}
	for len(units) > 0 {
		n, of := OfOneCampaign(units), trials[0]
		if suspected, is := records[units[0].Lease.CampaignID]; is {
			of = &trial{record: suspected}
			trials = append(trials, of)
		}
		of.units = append(of.units, units[:n]...)
		units = units[n:]
	}
	return trials, nil
}

// watch has the transaction name each event of a campaign that processes have died of before it is
// tried, and leave out the one that they died of.
func (s *shadow) watch(ctx context.Context, t *Transaction, one *trial) {
	t.mark, t.verdicts = nil, nil
	if !one.suspect() {
		return
	}
	t.mark = func(ctx context.Context, u *Unit, projection string, seq int64) error {
		whole, cancel := s.p.Whole(ctx)
		defer cancel()
		return s.p.Keeper.TryEvent(whole, s.p.Cfg.Pool, u.Lease.CampaignID, projection, seq)
	}
	if !one.convicted() {
		return
	}
	at := failure.Verdict{
		Projection: one.record.Projection, CampaignID: one.units[0].Lease.CampaignID, Seq: one.record.Seq,
	}
	t.verdicts = map[failure.Verdict]error{at: &failure.CrashError{Crashes: one.record.Crashes, Alone: one.record.Deaths}}
	if !s.left[at] {
		s.left[at] = true
		s.p.Cfg.Logger.ErrorContext(ctx, "shadow: event left out for a day, processes died of it",
			"projection", at.Projection, "campaign", at.CampaignID, "seq", at.Seq, "crashes", one.record.Crashes)
	}
}

// survive tells the living from the dead once trials are over, whatever came of them. What
// processes have died of stays known until it has been tried to the end.
func (s *shadow) survive(ctx context.Context, trials []*trial) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), registry.ReleaseTimeout)
	defer cancel()
	var tried, left []string
	for _, one := range trials {
		if one.suspect() && (!one.ended || one.convicted()) {
			left = append(left, one.campaigns()...)
		} else {
			tried = append(tried, one.campaigns()...)
		}
	}
	for _, done := range []struct {
		ids  []string
		note func(context.Context, lease.DB, []string) error
	}{{tried, s.p.Keeper.Tried}, {left, s.p.Keeper.Leave}} {
		if len(done.ids) == 0 {
			continue
		}
		if err := done.note(bounded, s.p.Cfg.Pool, done.ids); err != nil {
			s.p.Cfg.Logger.WarnContext(ctx, "shadow: what it survived is not written down", "error", err)
		}
	}
}

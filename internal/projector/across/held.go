package across

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// probe is a failed event that is read to be tried.
type probe struct {
	*failed.Standing
	at      int64 // position
	limit   time.Duration
	patient bool // it is read again with more time: others do not wait for it
	events  []event.Event
	faults  map[int64]error
	mark    int64 // of the erasures before it was read
	err     error
	done    chan struct{} // closed once it is read
	cancel  context.CancelFunc
}

// mostProbes is how many failed events are read at once, if all but one take long.
const mostProbes = 4

// probeNext tries a failed event that is due, if one is read. Events are read while live ones are applied.
func (p *place) probeNext(ctx context.Context) (worked bool, err error) {
	p.openProbe(ctx)
	i := slices.IndexFunc(p.probes, func(one *probe) bool {
		select {
		case <-one.done:
			return true
		default:
			return false
		}
	})
	if i < 0 {
		return false, nil
	}
	one := p.probes[i]
	p.probes = slices.Delete(p.probes, i, i+1)
	_, held := p.held[one.CampaignID]
	slow, tooSlow := errors.AsType[*pages.SlowReadError](one.err)
	switch {
	case !held:
		return false, nil
	case one.err == nil && one.mark != p.source.mark(): // it may be erased
		p.failed = append(p.failed, one.Standing)
		return false, nil
	case tooSlow && (slow.Limit < pages.LongestRead || !p.Draining):
		p.Cfg.Logger.WarnContext(ctx, "the read of a failed event took too long, the next has more time", "projection",
			p.k.Name, "partition", p.part, "campaign", one.CampaignID, "after", one.at-1, "timeout", one.limit,
			"error", one.err)
		p.failed = append(p.failed, one.Standing)
		return false, nil
	case one.err != nil:
		return true, one.err
	}
	return true, p.probe(ctx, one)
}

// openProbe begins to read the next failed event that is due, unless one is read already that does not take long. A
// place that has a share of the time, or tries events alone, waits for it.
func (p *place) openProbe(ctx context.Context) {
	if len(p.failed) == 0 || len(p.probes) >= mostProbes ||
		slices.ContainsFunc(p.probes, func(one *probe) bool { return !one.patient }) {
		return
	}
	one := &probe{Standing: p.failed[0], at: p.failed[0].NextSeq, mark: p.source.mark(), done: make(chan struct{})}
	p.failed = p.failed[1:]
	if _, held := p.held[one.CampaignID]; !held {
		return
	}
	if !one.Failed {
		one.at-- // it is resolved
	}
	_, one.limit = p.source.patience.Next(one.at-1, 1)
	one.patient = p.source.patience.Repeats(one.limit)
	limited, cancel := context.WithTimeout(ctx, one.limit)
	one.cancel = cancel
	p.probes = append(p.probes, one)
	read := func() {
		defer close(one.done)
		defer cancel()
		if one.err = p.readProbe(limited, one); ctx.Err() == nil && p.source.patience.Done(one.at-1, one.err) {
			one.err = &pages.SlowReadError{After: one.at - 1, Limit: one.limit, Err: one.err}
		}
	}
	if p.marks > 0 || p.building || p.Draining {
		read()
		return
	}
	p.source.ahead.Go(func() {
		read()
		loops.Signal(p.probed)
	})
}

func (p *place) readProbe(ctx context.Context, one *probe) (err error) {
	w := event.Window{After: one.at - 1, Floor: one.at, Events: 1, Bytes: math.MaxInt64}
	if one.events, _, err = p.readJournal(ctx, w, one.patient, one.limit); err == nil {
		one.faults, err = pages.Open(ctx, p.Cfg.Pool, p.Cfg.Catalogue, one.events)
	}
	return err
}

// dropProbes ends the reads of failed events.
func (p *place) dropProbes() {
	for _, one := range p.probes {
		one.cancel()
		<-one.done
	}
	p.probes = nil
}

// probe tries the event at which a key has failed, alone. If it succeeds, the key goes on behind the
// event. With [kind.AllKeys] the partition does, also if an operator has resolved the event.
func (p *place) probe(ctx context.Context, read *probe) error {
	s, at, all := read.Standing, read.at, read.CampaignID == projection.AllKeys
	stride := &apply.Stride{Projection: p.k, Careful: true}
	if s.Reset {
		stride.Reset = []string{s.CampaignID}
	}
	var passed passing
	for i := range read.events {
		e := &read.events[i]
		passed.pass(e)
		for _, one := range p.tried(s, e, read.faults[e.Position]) {
			if _, behind := p.held[one.Key]; p.takes(&one) && (!behind || one.Key == s.CampaignID) {
				stride.Events = append(stride.Events, one) // otherwise its key, found at last, is behind itself
			}
		}
	}
	m := p.move(p.read)
	stride.Fence = func(batch *pgx.Batch, held map[string]int64) {
		if _, again := held[s.CampaignID]; all && !again {
			m.To, m.Events, m.Hash = at, m.Events+passed.n, m.Hash^passed.hash
		}
		p.db.QueueApplied(batch, m)
	}
	stride.Finish = func(batch *pgx.Batch, held map[string]int64) {
		switch _, again := held[s.CampaignID]; {
		case again:
		case all:
			failed.Finish(batch, []failed.Standing{*s})
		default:
			next := *s
			next.NextSeq, next.Reset = next.NextSeq+1, false
			failed.Move(batch, []failed.Standing{next})
		}
	}
	p.Metrics.Projections.Retried.WithLabelValues(p.k.Name).Inc()
	held, err := p.stride(ctx, stride)
	if err != nil {
		return err
	}
	p.read, p.stands, p.passed, p.hash, p.saved = m.To, m.To, 0, 0, time.Now()
	maps.Copy(p.held, held) // perhaps another key than the one that was tried: it was found at last
	switch _, again := held[s.CampaignID]; {
	case again:
	case all:
		delete(p.held, s.CampaignID)
	default:
		p.held[s.CampaignID] = at + 1
		p.behind[s.CampaignID] = &failed.Standing{CampaignID: s.CampaignID, Projection: s.Projection, NextSeq: at + 1}
	}
	return nil
}

// tried returns the event at which a key has failed, for what is to be tried. If it may have several keys, it has
// passed the others. Where its keys are not found now, it fails for this one.
func (p *place) tried(s *failed.Standing, e *event.Event, fault error) []apply.Keyed {
	keyed := apply.AppendKeyed(nil, p.k, e, fault)
	if p.k.Keys == nil || s.CampaignID == projection.AllKeys {
		return keyed
	}
	if len(keyed) > 0 && keyed[0].Key == projection.AllKeys {
		keyed[0].Key = s.CampaignID
	}
	return slices.DeleteFunc(keyed, func(one apply.Keyed) bool { return one.Key != s.CampaignID })
}

// readJournal reads events of the instance of the database in which the place was claimed.
// The limit is that of a read that is repeated; others have that of the session.
func (p *place) readJournal(
	ctx context.Context, w event.Window, repeated bool, limit time.Duration,
) ([]event.Event, int64, error) {
	if !repeated {
		limit = 0
	}
	page, err := pages.ReadPage(ctx, p.Cfg.Pool, p.Cfg.Archive, w, limit)
	if err == nil && page.Instance != p.instance || errors.Is(err, feed.ErrReplaced) {
		err = ledger.ErrLost
	}
	return page.Events, page.Until, err
}

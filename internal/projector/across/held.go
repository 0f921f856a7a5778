package across

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// probeNext tries the next failed event that is due, if there is one.
func (p *place) probeNext(ctx context.Context) (worked bool, err error) {
	if len(p.failed) == 0 {
		return false, nil
	}
	s := p.failed[0]
	p.failed = p.failed[1:]
	if _, held := p.held[s.CampaignID]; !held {
		return false, nil
	}
	return true, p.probe(ctx, s)
}

// probe tries the event at which a key has failed, alone. If it succeeds, the key goes on behind the
// event. With [kind.AllKeys] the partition does, also if an operator has resolved the event.
func (p *place) probe(ctx context.Context, s *failed.Standing) error {
	at, all := s.NextSeq, s.CampaignID == projection.AllKeys
	if !s.Failed {
		at-- // it is resolved
	}
	events, _, err := p.readJournal(ctx, event.Window{After: at - 1, Floor: at, Events: 1, Bytes: math.MaxInt64})
	if err != nil {
		return err
	}
	stride := &apply.Stride{Projection: p.k, Careful: true}
	if s.Reset {
		stride.Reset = []string{s.CampaignID}
	}
	var passed passing
	faults, err := pages.Open(ctx, p.Cfg.Pool, p.Cfg.Catalogue, events)
	if err != nil {
		return err
	}
	for i := range events {
		passed.pass(&events[i])
		for _, one := range p.tried(s, &events[i], faults[events[i].Position]) {
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
func (p *place) readJournal(ctx context.Context, w event.Window) ([]event.Event, int64, error) {
	page, err := feed.ReadPage(ctx, feed.Through{Querier: p.Cfg.Pool, Archive: p.Cfg.Archive}, w)
	if err == nil && page.Instance != p.instance || errors.Is(err, feed.ErrReplaced) {
		err = ledger.ErrLost
	}
	return page.Events, page.Until, err
}

package across

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	dueEvery = time.Second // between two looks for due keys
	dueMost  = 256         // keys of one look
)

// retryDue tries the failed events of keys that are due, and catches up with the keys whose event is
// behind them. It reports whether there were any.
func (p *place) retryDue(ctx context.Context) (worked bool, err error) {
	if len(p.held) == 0 || time.Since(p.looked) < dueEvery {
		return false, nil
	}
	p.looked = time.Now()
	due, err := failed.Keys(ctx, p.Cfg.Pool, p.Cfg.ConsumerGroup, p.k.Name, true, dueMost)
	if err != nil {
		return false, err
	}
	behind := map[string]*failed.Standing{}
	for _, s := range due {
		switch _, held := p.held[s.CampaignID]; {
		case !held || !p.mine(s.CampaignID):
		case s.Failed || s.CampaignID == kind.AllKeys:
			worked = true
			if err := p.probe(ctx, s); err != nil {
				return true, err
			}
		default:
			behind[s.CampaignID] = s
		}
	}
	if len(behind) == 0 {
		return worked, nil
	}
	return true, p.catchUp(ctx, behind)
}

// probe tries the event at which a key has failed, alone. If it succeeds, the key goes on behind the
// event. With [kind.AllKeys] the partition does, also if an operator has resolved the event.
func (p *place) probe(ctx context.Context, s *failed.Standing) error {
	at, all := s.NextSeq, s.CampaignID == kind.AllKeys
	if !s.Failed {
		at-- // it is resolved
	}
	events, _, err := p.window(ctx, feed.Window{After: at - 1, Floor: at, Events: 1, Bytes: math.MaxInt64})
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
		one := apply.KeyOf(p.k, &events[i], faults[events[i].Position])
		if _, behind := p.held[one.Key]; p.takes(&one) && (!behind || one.Key == s.CampaignID) {
			stride.Events = append(stride.Events, one) // otherwise its key, found at last, is behind itself
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
			next.NextSeq++
			failed.Move(batch, []failed.Standing{next})
		}
	}
	p.Metrics.Projections.Retried.WithLabelValues(p.k.Name).Inc()
	held, err := p.stride(ctx, stride)
	if err != nil {
		return err
	}
	p.read, p.stands, p.passed, p.hash, p.saved = m.To, m.To, 0, 0, time.Now()
	switch _, again := held[s.CampaignID]; {
	case again:
	case all:
		delete(p.held, s.CampaignID)
	default:
		p.held[s.CampaignID], p.looked = at+1, time.Time{} // it is due at once
	}
	return nil
}

// window reads events of the instance of the database in which the place was claimed.
func (p *place) window(ctx context.Context, w feed.Window) ([]journal.Event, int64, error) {
	page, err := feed.ReadPage(ctx, feed.Through{Querier: p.Cfg.Pool, Archive: p.Cfg.Archive}, w)
	if err == nil && page.Instance != p.instance || errors.Is(err, feed.ErrReplaced) {
		err = ledger.ErrLost
	}
	return page.Events, page.Until, err
}

// catchUp applies the events of keys between their places and the partition's. The journal has no
// index by key: one pass over it serves all of them.
func (p *place) catchUp(ctx context.Context, behind map[string]*failed.Standing) error {
	after := int64(math.MaxInt64)
	for _, s := range behind {
		after = min(after, s.NextSeq-1)
	}
	for len(behind) > 0 {
		events, until, err := p.window(ctx, feed.Window{
			After: after, Floor: max(after, p.read), Events: p.source.events, Bytes: pages.Bytes,
		})
		if err != nil {
			return err
		}
		faults, err := pages.Open(ctx, p.Cfg.Pool, p.Cfg.Catalogue, events)
		if err != nil {
			return err
		}
		var wanted []apply.Keyed
		for i := range events {
			if p.marks > 0 && len(wanted) == 1 {
				until = wanted[0].Event.Position
				break
			}
			if one := apply.KeyOf(p.k, &events[i], faults[events[i].Position]); p.takes(&one) {
				if s := behind[one.Key]; s != nil && one.Event.Position >= s.NextSeq {
					wanted = append(wanted, one)
				}
			}
		}
		if len(wanted) > 0 || until >= p.read {
			if err := p.forward(ctx, behind, wanted, until); err != nil {
				return err
			}
		}
		if after = until; after >= p.read {
			return nil
		}
	}
	return nil
}

// forward applies a page's events of keys that catch up, and moves them behind the page.
func (p *place) forward(
	ctx context.Context, behind map[string]*failed.Standing, events []apply.Keyed, until int64,
) error {
	stride := &apply.Stride{Projection: p.k, Events: events, Careful: p.careful > 0}
	for key, s := range behind {
		if s.Reset {
			stride.Reset = append(stride.Reset, key)
		}
	}
	m := p.move(p.read)
	stride.Fence = func(batch *pgx.Batch, _ map[string]int64) { p.db.QueueApplied(batch, m) }
	stride.Finish = func(batch *pgx.Batch, held map[string]int64) {
		var rest []failed.Standing
		for key, s := range behind {
			if _, again := held[key]; !again {
				next := *s
				next.NextSeq = max(next.NextSeq, until+1)
				rest = append(rest, next)
			}
		}
		switch {
		case len(rest) == 0:
		case until >= p.read:
			failed.Finish(batch, rest)
		default:
			failed.Move(batch, rest)
		}
	}
	held, err := p.stride(ctx, stride)
	if err != nil {
		return err
	}
	p.settle(m)
	p.hold(stride, held)
	for key, s := range behind {
		switch _, again := held[key]; {
		case again:
			delete(behind, key)
		case until >= p.read:
			delete(p.held, key)
		default:
			s.NextSeq, s.Reset, p.held[key] = max(s.NextSeq, until+1), false, max(s.NextSeq, until+1)
		}
	}
	return nil
}

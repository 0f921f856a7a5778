package publisher

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
)

type parker struct{ *agenda }

// writeParks records refused events. The round continues only then: the position must not pass an
// event that is recorded nowhere.
func (pk *parker) writeParks(p *pair) {
	p.busy = true
	parks := p.parks
	pk.timed(pk.cfg.LeaseTTL/2, func(ctx context.Context) error {
		return pk.fenced(ctx, p, func(tx pgx.Tx) error {
			for _, k := range parks {
				if err := p.write(ctx, tx, k); err != nil {
					return err
				}
			}
			return nil
		})
	}, func(err error) { pk.parked(p, parks, err) })
}

func (p *pair) refused(e *Event, attempts int, err error, permanent bool) *ledger.Refused {
	final := permanent || attempts >= p.to.Attempts
	if errors.Is(err, catalogue.ErrWrappingKey) { // no attempt: nothing was sent
		attempts, final = 0, false
	}
	return &ledger.Refused{
		Campaign: e.CampaignID, Seq: e.Seq, Position: e.Position, ID: e.ID.String(), Type: e.Type, Attempts: attempts,
		Final: final, Delay: p.retryDelay(attempts), Why: redact.Error(err), ErasedBy: feed.ErasedBy(&e.Event),
	}
}

// leavesOut reports whether the event is given up and its campaign continues without it.
func (p *pair) leavesOut(k *ledger.Refused) bool { return k.Final && p.to.OnRefusal == ParkEvent }

func (p *pair) write(ctx context.Context, tx pgx.Tx, k *ledger.Refused) error {
	if p.leavesOut(k) {
		return ledger.LeaveOut(ctx, tx, p.Key, k)
	}
	return ledger.Park(ctx, tx, p.Key, k)
}

// parked continues the round without the recorded events.
func (pk *parker) parked(p *pair, parks []*ledger.Refused, err error) {
	p.busy = false
	if pk.pairs[p.Key] != p {
		return
	}
	now := time.Now()
	pk.look(p)
	if err != nil {
		if errors.Is(err, ledger.ErrLost) {
			pk.drop(p)
			return
		}
		pk.unwritten(err, "what was refused")
		p.notBefore = later(p.notBefore, now.Add(200*time.Millisecond))
		return
	}
	p.parks = nil
	gone := map[int64]bool{} // positions
	for _, k := range parks {
		gone[k.Position] = true
		log := pk.cfg.Logger.With("topic", p.Topic, "publisher", p.Publisher, "campaign", k.Campaign, "seq", k.Seq,
			"event_id", k.ID, "event_type", k.Type, "error", k.Why)
		if k.Final {
			log.ErrorContext(pk.ctx, "an event is parked")
		} else {
			log.WarnContext(pk.ctx, "an event was refused, its campaign waits")
		}
		if !p.leavesOut(k) {
			p.held[k.Campaign] = k.Position
			pk.tickAt(now.Add(k.Delay))
		}
	}
	p.keep(func(i int) bool {
		e := &p.pending[i]
		if gone[e.Position] {
			return false
		}
		if last, held := p.held[e.CampaignID]; held {
			p.held[e.CampaignID] = max(last, e.Position)
			return false
		}
		return true
	})
	p.settle(now)
}

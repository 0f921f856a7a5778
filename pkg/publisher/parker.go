package publisher

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/publisher/internal/ledger"
)

// park is an event that was refused, and is to be written so.
type park struct {
	event    Event
	attempts int
	err      error
	final    bool // no further attempt
}

// parker writes down what was refused.
type parker struct{ *agenda }

// writeParks writes down what was refused. Only then does the round go on without it: its position
// may not pass by what is nowhere.
func (pk *parker) writeParks(p *pair) {
	p.busy = true
	parks, ctx := p.parks, pk.ctx
	pk.job(func() func() {
		ctx, cancel := context.WithTimeout(ctx, pk.cfg.LeaseTTL/2)
		defer cancel()
		err := pk.fenced(ctx, p, func(tx pgx.Tx) error {
			for _, k := range parks {
				if err := p.write(ctx, tx, k); err != nil {
					return err
				}
			}
			return nil
		})
		return func() { pk.parked(p, parks, err) }
	})
}

// leavesOut tells whether the event is given up and its campaign goes on without it.
func (p *pair) leavesOut(k park) bool { return k.final && p.to.OnRefusal == ParkEvent }

// refused is the event as it is written down.
func (p *pair) refused(k park) *ledger.Refused {
	e := &k.event
	return &ledger.Refused{
		Campaign: e.CampaignID, Seq: e.Seq, Position: e.Position, ID: e.ID.String(), Type: e.Type,
		Attempts: k.attempts, Final: k.final, Delay: p.retryDelay(k.attempts), Why: redact.Error(k.err),
	}
}

func (p *pair) write(ctx context.Context, tx pgx.Tx, k park) error {
	if p.leavesOut(k) {
		return ledger.LeaveOut(ctx, tx, p.Key, p.refused(k))
	}
	return ledger.Park(ctx, tx, p.Key, p.refused(k))
}

// parked lets the round go on without what was written.
func (pk *parker) parked(p *pair, parks []park, err error) {
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
		gone[k.event.Position] = true
		log := pk.cfg.Logger.With("topic", p.Topic, "publisher", p.Publisher, "campaign", k.event.CampaignID, "seq",
			k.event.Seq, "event_id", k.event.ID,
			"event_type", k.event.Type, "error", redact.Error(k.err))
		if k.final {
			log.ErrorContext(pk.ctx, "an event is parked")
		} else {
			log.WarnContext(pk.ctx, "an event was refused, its campaign waits")
		}
		if !p.leavesOut(k) {
			p.held[k.event.CampaignID] = k.event.Position
			pk.tickAt(now.Add(p.retryDelay(k.attempts)))
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

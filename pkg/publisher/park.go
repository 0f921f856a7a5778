package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/redact"
)

// park is an event that was refused, and is to be written so.
type park struct {
	event    Event
	attempts int
	err      error
	final    bool // no further attempt
}

// errLost ends a write for a pair that is another's.
var errLost = errors.New("the pair was taken over")

// parker writes down what was refused.
type parker struct{ *agenda }

// writeParks writes down what was refused. Only then does the round go on without it: its position may not pass by what is nowhere.
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

// fenced runs write in a transaction in which the pair is certainly ours.
func (b *base) fenced(ctx context.Context, p *pair, write func(tx pgx.Tx) error) error {
	return b.db.use(ctx, func(conn *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, queryFence, p.Topic, p.Publisher, b.owner, p.generation, p.instance)
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				return errLost
			}
			return write(tx)
		})
	})
}

// leavesOut tells whether the event is given up and its campaign goes on without it.
func (p *pair) leavesOut(k park) bool { return k.final && p.to.OnRefusal == ParkEvent }

func (p *pair) write(ctx context.Context, tx pgx.Tx, k park) error {
	e := &k.event
	if p.leavesOut(k) {
		_, err := tx.Exec(ctx, queryLeaveOut, p.Topic, p.Publisher, e.CampaignID, e.Seq, e.Position, e.ID.String(), e.Type, k.attempts, shortened(k.err))
		return err
	}
	status := "retrying"
	if k.final {
		status = "parked"
	}
	_, err := tx.Exec(ctx, queryPark, p.Topic, p.Publisher, e.CampaignID, e.Seq, e.Position, e.ID.String(), e.Type, status, k.attempts, p.retryDelay(k.attempts), shortened(k.err))
	return err
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
		if errors.Is(err, errLost) {
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
		log := pk.cfg.Logger.With("topic", p.Topic, "publisher", p.Publisher, "campaign", k.event.CampaignID, "seq", k.event.Seq, "event_id", k.event.ID,
			"event_type", k.event.Type, "error", shortened(k.err))
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

// tickAt has the next look be at t if it would be later.
func (a *agenda) tickAt(t time.Time) {
	if t = t.Add(time.Millisecond); t.Before(a.nextTick) {
		a.nextTick = t
	}
}

// maxError bounds an error that is written down.
const maxError = 2000

// shortened is the error's text as it is written down: valid, and no longer than maxError bytes. What a sink says has no values in it by then: see [callSink].
func shortened(err error) string {
	text := redact.Error(err)
	if len(text) <= maxError {
		return text
	}
	text = text[:maxError]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}

// describe says which event was refused, and how often.
func describe(e *Event, attempts int, err error) string {
	return fmt.Sprintf("event %d of campaign %s (%s, %s) was refused, attempt %d: %v", e.Seq, e.CampaignID, e.Type, e.ID, attempts, err)
}

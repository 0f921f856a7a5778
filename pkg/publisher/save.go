package publisher

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// saveEvery, and savePair more for each pair that moves, up to saveMost, is how often positions are written, at most: many pairs must not keep the database busy with
	// where they are. What a crash forgets is sent again.
	saveEvery = 20 * time.Millisecond
	savePair  = 2 * time.Millisecond
	saveMost  = 500 * time.Millisecond
	// passEvery is how often the position of a pair is written that has passed by events that are not its topic's.
	passEvery = 5 * time.Second
)

// written is what is written for one pair.
type written struct {
	pair      *pair
	to        int64
	published int64
	release   bool
}

func (p *pair) move(release bool) written {
	return written{pair: p, to: p.acked, published: p.published, release: release}
}

// save writes how far pairs have got, prolongs their leases, and gives back those that leave: all that there is to write in one statement.
func (r *Relay) save(now time.Time) {
	if r.saving {
		return
	}
	every := saveEvery
	if !r.hurry {
		every = savePause(r.lastMoved)
	}
	if next := r.lastSave.Add(every); now.Before(next) && (!r.stopping || now.Before(r.lastSave)) {
		r.at(next)
		return
	}
	var moves []written
	hurry := false
	for _, p := range r.pairs {
		hurry = hurry || p.leaving && (p.busy || len(p.draining) > 0)
		renew := p.trusted.Add(-r.cfg.LeaseTTL * 2 / 3)
		switch {
		case p.halting != nil, p.reporting: // one after the other
		case p.leaving && !p.busy && len(p.draining) == 0:
			moves = append(moves, p.move(true))
		case p.published > 0, !now.Before(renew), !p.changed.IsZero() && now.Sub(p.changed) >= passEvery:
			moves = append(moves, p.move(false))
		default:
			r.at(renew)
		}
	}
	r.hurry = hurry
	if len(moves) == 0 {
		return
	}
	r.saving, r.lastSave, r.lastMoved = true, now, len(moves)
	ctx, instance := r.ctx, r.instance
	r.job(func() func() {
		kept, err := r.write(ctx, instance, moves)
		return func() { r.saved(moves, kept, err, now) }
	})
}

// savePause is the time from a write of so many positions to the next.
func savePause(moved int) time.Duration {
	return min(saveEvery+time.Duration(moved)*savePair, saveMost)
}

// write answers the pairs that are still ours.
func (r *Relay) write(ctx context.Context, instance string, moves []written) (map[Key]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.LeaseTTL/2)
	defer cancel()
	kept, releases := map[Key]bool{}, false
	batch := &pgx.Batch{}
	queueMoves(batch, r.owner, instance, r.cfg.LeaseTTL, moves).Query(func(rows pgx.Rows) error {
		var key Key
		_, err := pgx.ForEachRow(rows, []any{&key.Topic, &key.Publisher}, func() error {
			kept[key] = true
			return nil
		})
		return err
	})
	for _, m := range moves {
		releases = releases || m.release
	}
	if releases {
		batch.Queue(queryNotify)
	}
	return kept, r.db.send(ctx, batch)
}

// queueMoves queues the one statement that moves positions.
func queueMoves(batch *pgx.Batch, owner, instance string, ttl time.Duration, moves []written) *pgx.QueuedQuery {
	topics, publishers, release := make([]string, len(moves)), make([]string, len(moves)), make([]bool, len(moves))
	numbers := make([]int64, 3*len(moves))
	generations, positions, published := numbers[:len(moves)], numbers[len(moves):2*len(moves)], numbers[2*len(moves):]
	for i, m := range moves {
		topics[i], publishers[i], release[i] = m.pair.Topic, m.pair.Publisher, m.release
		generations[i], positions[i], published[i] = m.pair.generation, m.to, m.published
	}
	return batch.Queue(queryMove, owner, topics, publishers, generations, positions, published, release, ttl, instance)
}

// saved notes what was written. started is when it was asked for: leases live from then on, by our clock.
func (r *Relay) saved(moves []written, kept map[Key]bool, err error, started time.Time) {
	r.saving = false
	defer func() {
		for _, p := range r.pairs {
			r.writeHalt(p)
			r.writeFailing(p)
		}
	}()
	if err != nil {
		r.unwritten(err, "positions")
		r.lastSave = time.Now().Add(100 * time.Millisecond) // not at once
		r.at(r.lastSave.Add(saveEvery))
		return
	}
	for _, m := range moves {
		p := m.pair
		if r.pairs[p.Key] != p {
			continue
		}
		switch {
		case !kept[p.Key]:
			r.metrics.lost.Inc()
			r.cfg.Logger.WarnContext(r.ctx, "a pair was taken over", "topic", p.Topic, "publisher", p.Publisher)
			r.drop(p)
		case m.release:
			r.drop(p)
		default:
			p.saved = max(p.saved, m.to)
			p.published -= m.published
			p.trusted = started.Add(r.cfg.LeaseTTL)
			if p.changed = (time.Time{}); p.acked > p.saved {
				p.changed = time.Now()
			}
			r.look(p)
		}
	}
}

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

// saver writes the rows of pairs: how far they have got, how they fail, and that they stop.
type saver struct {
	*agenda
	saving    bool
	lastSave  time.Time
	lastMoved int // pairs whose position was written then
}

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
func (s *saver) save(now time.Time) {
	if s.saving {
		return
	}
	every := saveEvery
	if !s.hurry {
		every = savePause(s.lastMoved)
	}
	if next := s.lastSave.Add(every); now.Before(next) && (!s.stopping || now.Before(s.lastSave)) {
		s.at(next)
		return
	}
	var moves []written
	hurry := false
	for _, p := range s.pairs {
		hurry = hurry || p.leaving && (p.busy || len(p.draining) > 0)
		renew := p.trusted.Add(-s.cfg.LeaseTTL * 2 / 3)
		switch {
		case p.halting != nil, p.reporting: // one after the other
		case p.leaving && !p.busy && len(p.draining) == 0:
			moves = append(moves, p.move(true))
		case p.published > 0, !now.Before(renew), !p.changed.IsZero() && now.Sub(p.changed) >= passEvery:
			moves = append(moves, p.move(false))
		default:
			s.at(renew)
		}
	}
	s.hurry = hurry
	if len(moves) == 0 {
		return
	}
	s.saving, s.lastSave, s.lastMoved = true, now, len(moves)
	ctx, instance := s.ctx, s.instance
	s.job(func() func() {
		kept, err := s.write(ctx, instance, moves)
		return func() { s.saved(moves, kept, err, now) }
	})
}

// savePause is the time from a write of so many positions to the next.
func savePause(moved int) time.Duration {
	return min(saveEvery+time.Duration(moved)*savePair, saveMost)
}

// write answers the pairs that are still ours.
func (s *saver) write(ctx context.Context, instance string, moves []written) (map[Key]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.LeaseTTL/2)
	defer cancel()
	kept, releases := map[Key]bool{}, false
	batch := &pgx.Batch{}
	queueMoves(batch, s.owner, instance, s.cfg.LeaseTTL, moves).Query(func(rows pgx.Rows) error {
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
	return kept, s.db.send(ctx, batch)
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
func (s *saver) saved(moves []written, kept map[Key]bool, err error, started time.Time) {
	s.saving = false
	defer func() {
		for _, p := range s.pairs {
			s.writeHalt(p)
			s.writeFailing(p)
		}
	}()
	if err != nil {
		s.unwritten(err, "positions")
		s.lastSave = time.Now().Add(100 * time.Millisecond) // not at once
		s.at(s.lastSave.Add(saveEvery))
		return
	}
	for _, m := range moves {
		p := m.pair
		if s.pairs[p.Key] != p {
			continue
		}
		switch {
		case !kept[p.Key]:
			s.metrics.lost.Inc()
			s.cfg.Logger.WarnContext(s.ctx, "a pair was taken over", "topic", p.Topic, "publisher", p.Publisher)
			s.drop(p)
		case m.release:
			s.drop(p)
		default:
			p.saved = max(p.saved, m.to)
			p.published -= m.published
			p.trusted = started.Add(s.cfg.LeaseTTL)
			if p.changed = (time.Time{}); p.acked > p.saved {
				p.changed = time.Now()
			}
			s.look(p)
		}
	}
}

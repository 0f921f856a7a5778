package publisher

import (
	"context"
	"iter"
	"slices"

	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

const (
	rememberAll  = 32_000 // sent events to remember, of all pairs together; up to twice as many
	rememberEach = 500    // of a pair, at least
	ghostsBatch  = 1000   // events looked up in one statement
)

// recent is the events that a sink accepted last.
type recent []ledger.Sent

// add appends s. At twice most events it forgets the oldest, down to most.
func (m *recent) add(s ledger.Sent, most int) {
	if *m = append(*m, s); len(*m) >= 2*most {
		*m = slices.Delete(*m, 0, len(*m)-most)
	}
}

func sentOf(e *Event) ledger.Sent {
	return ledger.Sent{Campaign: e.CampaignID, ID: e.ID, Seq: e.Seq, Position: e.Position}
}

// history is what this process sent last, to find events that a replaced journal has lost.
type history struct {
	*agenda
	sent      map[publications.Key]recent
	doubtful  bool // some sent events may have been lost with a journal
	comparing bool // sent events are being looked up
}

// remember records events that a sink accepted, even if the pair is another process's by now.
func (h *history) remember(p *pair, took iter.Seq[ledger.Sent]) {
	m, most := h.sent[p.Key], max(rememberEach, rememberAll/max(1, len(h.sent), len(h.pairs)))
	for s := range took {
		m.add(s, most)
	}
	h.sent[p.Key] = m
	// A round of a dropped pair may end after the other events were looked up.
	h.doubtful = h.doubtful || ledger.History(p.instance) != ledger.History(h.instance)
}

// findGhosts looks up what this process sent, if some of it may be lost.
func (h *history) findGhosts() {
	if !h.doubtful || h.comparing {
		return
	}
	h.doubtful, h.comparing = false, true
	sent := map[publications.Key]recent{}
	for key, m := range h.sent {
		sent[key] = slices.Clone(m)
	}
	ctx := h.ctx
	h.job(func() func() {
		ghosts, err := h.absent(ctx, sent)
		return func() { h.foundGhosts(ghosts, err) }
	})
}

// absent records and returns the events that the journal does not have.
func (h *history) absent(ctx context.Context, sent map[publications.Key]recent) (map[publications.Key]recent, error) {
	ghosts := map[publications.Key]recent{}
	for key, m := range sent {
		for batch := range slices.Chunk(m, ghostsBatch) {
			bounded, cancel := context.WithTimeout(ctx, h.cfg.LeaseTTL)
			absent, err := h.db.Absent(bounded, key, batch, publications.GhostsKept)
			if cancel(); err != nil {
				return ghosts, err
			}
			ghosts[key] = append(ghosts[key], absent...)
		}
	}
	return ghosts, nil
}

// foundGhosts counts and logs lost events, each once.
func (h *history) foundGhosts(ghosts map[publications.Key]recent, err error) {
	if h.comparing = false; err != nil {
		h.doubtful = true // look again at the next tick
		h.unwritten(err, "which events were sent and lost")
	}
	for key, absent := range ghosts {
		if len(absent) == 0 {
			continue
		}
		lost := map[ledger.Sent]bool{}
		for _, s := range absent {
			lost[s] = true
		}
		h.sent[key] = slices.DeleteFunc(h.sent[key], func(s ledger.Sent) bool { return lost[s] })
		h.metrics.Ghosts.WithLabelValues(key.Topic, key.Publisher).Add(float64(len(lost)))
		h.cfg.Logger.WarnContext(h.ctx,
			"sent events are missing from the journal: tidemark publisher ghosts lists them", "topic", key.Topic,
			"publisher", key.Publisher, "events", len(lost))
	}
}

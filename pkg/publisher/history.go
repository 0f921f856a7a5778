package publisher

import (
	"context"
	"iter"
	"slices"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/publisher/internal/ledger"
)

const (
	rememberAll  = 32_000 // events that were sent, of all pairs together; up to twice as many
	rememberEach = 500    // of a pair, at least
	ghostsBatch  = 1000   // events that are looked up in one statement
)

// recent is the events that a sink has taken last.
type recent []ledger.Sent

// add forgets the oldest where there are twice as many as must be kept.
func (m *recent) add(s ledger.Sent, most int) {
	if *m = append(*m, s); len(*m) >= 2*most {
		*m = slices.Delete(*m, 0, len(*m)-most)
	}
}

func sentOf(e *Event) ledger.Sent {
	return ledger.Sent{Campaign: e.CampaignID, ID: e.ID, Seq: e.Seq, Position: e.Position}
}

// history is what this process has sent last, to find what a journal that has taken the place of another does not have.
type history struct {
	*agenda
	sent      map[publications.Key]recent
	doubtful  bool // some of what was sent may have been lost with a journal
	comparing bool // what was sent is being looked up
}

// remember notes events of a pair that its sink has taken, also if the pair is another's by now.
func (h *history) remember(p *pair, took iter.Seq[ledger.Sent]) {
	m, most := h.sent[p.Key], max(rememberEach, rememberAll/max(1, len(h.sent), len(h.pairs)))
	for s := range took {
		m.add(s, most)
	}
	h.sent[p.Key] = m
	// A round of a pair that was dropped may have ended after others were looked up.
	h.doubtful = h.doubtful || h.journals > 0 && p.instance != h.instance
}

// findGhosts looks up what this process has sent, if some of it may have been lost.
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

// absent answers, and writes down, which events the journal does not have.
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

// foundGhosts counts what the journal does not have, once, and says so.
func (h *history) foundGhosts(ghosts map[publications.Key]recent, err error) {
	if h.comparing = false; err != nil {
		h.doubtful = true // at the next look
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
			"events were sent that the journal has no more: tidemark publisher ghosts names them", "topic", key.Topic,
			"publisher", key.Publisher, "events", len(lost))
	}
}

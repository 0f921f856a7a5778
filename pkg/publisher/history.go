package publisher

import (
	"context"
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
func (m *recent) add(e *Event, most int) {
	m.keep(ledger.Sent{Campaign: e.CampaignID, ID: e.ID, Seq: e.Seq, Position: e.Position}, most)
}

func (m *recent) keep(s ledger.Sent, most int) {
	if *m = append(*m, s); len(*m) >= 2*most {
		*m = slices.Delete(*m, 0, len(*m)-most)
	}
}

// history is what this process has sent last, to find what a journal that has taken the place of another does not have.
type history struct {
	*agenda
	sent      map[publications.Key]recent
	doubtful  bool // some of what was sent may have been lost with a journal
	comparing bool // what was sent is being looked up
}

// remember notes which events of a pair's round its sink has taken. A pair may be another's by now:
// this process has sent them.
func (h *history) remember(p *pair, sent []bool) {
	m, most := h.sent[p.Key], h.remembered()
	for i := range sent {
		if sent[i] {
			m.add(&p.pending[i], most)
		}
	}
	h.sentBy(p, m)
}

// recall is remember for a campaign that was brought back.
func (h *history) recall(p *pair, took recent) {
	m, most := h.sent[p.Key], h.remembered()
	for _, s := range took {
		m.keep(s, most)
	}
	h.sentBy(p, m)
}

// remembered is how many events of each pair are kept.
func (h *history) remembered() int {
	return max(rememberEach, rememberAll/max(1, len(h.sent), len(h.pairs)))
}

// sentBy keeps what was remembered. A round of a pair that was dropped may have ended after others were looked up.
func (h *history) sentBy(p *pair, m recent) {
	h.sent[p.Key] = m
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
			absent, err := h.absentOf(ctx, key, batch)
			if err != nil {
				return ghosts, err
			}
			ghosts[key] = append(ghosts[key], absent...)
		}
	}
	return ghosts, nil
}

func (h *history) absentOf(ctx context.Context, key publications.Key, batch recent) (recent, error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.LeaseTTL)
	defer cancel()
	return h.db.Absent(ctx, key, batch, publications.GhostsKept)
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

package pages

import (
	"context"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

const (
	sampleEvery = 10 * time.Second
	samplesKept = 360 // an hour

	heatBuckets = 16 // of campaigns, by a hash of their ids
	heatColumns = 30
	heatColumn  = time.Minute
	heatWalk    = 250 // campaigns looked at for a sample; the next one goes on where it ended
)

// history is what this process has seen of the last hour, for the lines of the overview and the
// heat map. It is lost with the process.
type history struct {
	pool   *pgxpool.Pool
	reader *status.Reader
	log    *slog.Logger

	mu      sync.Mutex
	since   time.Time
	samples []sample // oldest first
	last    *status.Status
	heat    []heatCells // oldest first, one a minute
	cursor  outbox.Waiting
}

// sample is one look.
type sample struct {
	At       time.Time
	Pending  int64
	Lag      time.Duration // the greatest of the groups'
	Oldest   time.Duration // what the oldest item has waited
	Behind   int64
	Dead     int64
	Position int64
	Applied  int64
}

// heatCells is the longest wait in each bucket within a column of time.
type heatCells struct {
	At    time.Time
	Waits [heatBuckets]time.Duration
	Seen  [heatBuckets]bool
}

// sections are what the overview shows.
func sections() []status.Section {
	return []status.Section{
		status.SectionQueue, status.SectionLag, status.SectionDeferred, status.SectionPauses, status.SectionWorkers,
		status.SectionRebuilds, status.SectionPublishers, status.SectionJournal,
		status.SectionPostgres,
	}
}

// run looks every ten seconds until ctx ends, and returns nil.
func (h *history) run(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		if err := h.sample(ctx); err != nil && ctx.Err() == nil {
			h.log.DebugContext(ctx, "look for the pages' lines", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sample looks once.
func (h *history) sample(ctx context.Context) error {
	s, err := h.reader.Read(ctx, sections()...)
	if err != nil {
		return err
	}
	h.add(s)
	h.mu.Lock()
	from := h.cursor
	h.mu.Unlock()
	waiting, err := outbox.WalkWaiting(ctx, h.pool, from.Group, from.CampaignID, heatWalk)
	if err != nil {
		return err
	}
	h.warm(s.At, waiting)
	return nil
}

func (h *history) add(s *status.Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() {
		h.since = s.At
	}
	s.Compare(h.last)
	h.last = s
	h.samples = append(h.samples, digest(s))
	if over := len(h.samples) - samplesKept; over > 0 {
		h.samples = slices.Delete(h.samples, 0, over)
	}
}

// digest is what the lines need of a status.
func digest(s *status.Status) sample {
	d := sample{At: s.At}
	for _, q := range s.Queue {
		d.Pending += q.Pending + q.Processing + q.Paused
		d.Dead += q.Dead
		if q.Oldest != nil {
			d.Oldest = max(d.Oldest, q.At.Sub(q.Oldest.Since))
		}
	}
	for _, l := range s.Lag {
		if l.Projection == "" {
			d.Lag = max(d.Lag, l.Age)
			d.Behind += l.Events
		}
	}
	for _, w := range s.Workers {
		d.Applied += w.EventsApplied
	}
	if s.Journal != nil {
		d.Position = s.Journal.Position
	}
	return d
}

// warm notes what was seen of campaigns that wait. Where the walk came to the end, all buckets have been looked at.
func (h *history) warm(at time.Time, waiting []outbox.Waiting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	column := at.Truncate(heatColumn)
	if n := len(h.heat); n == 0 || !h.heat[n-1].At.Equal(column) {
		h.heat = append(h.heat, heatCells{At: column})
		if over := len(h.heat) - heatColumns; over > 0 {
			h.heat = slices.Delete(h.heat, 0, over)
		}
	}
	cells := &h.heat[len(h.heat)-1]
	for _, w := range waiting {
		b := bucketOf(w.CampaignID)
		cells.Waits[b] = max(cells.Waits[b], at.Sub(w.Since))
		cells.Seen[b] = true
	}
	h.cursor = outbox.Waiting{}
	if len(waiting) == heatWalk {
		h.cursor = waiting[len(waiting)-1]
		return
	}
	for b := range cells.Seen {
		cells.Seen[b] = true
	}
}

// bucketOf answers the bucket of a campaign.
func bucketOf(campaign string) int {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(campaign))
	return int(sum.Sum32() % heatBuckets)
}

// look answers the samples, and the earlier status that speeds are told from.
func (h *history) look() (samples []sample, last *status.Status, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.samples), h.last, h.since
}

// columns answers the heat map, oldest first.
func (h *history) columns() []heatCells {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.heat)
}

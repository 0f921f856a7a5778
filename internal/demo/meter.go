package demo

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/examples/tabletop"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

// sample is what is known at one moment. Counts are since the load began.
type sample struct {
	at           time.Duration // since the load began
	appended     int64
	applied      int64
	appendedRate float64 // a second, since the sample before
	appliedRate  float64
	lag          int64         // events
	age          time.Duration // of the oldest event that is not applied
	workers      []workerSample
}

type workerSample struct {
	number  int
	pid     int
	state   state
	known   bool // it has reported
	held    int
	applied int64
}

// up is how many workers run and have reported.
func (s sample) up() int {
	n := 0
	for _, w := range s.workers {
		if w.state == running && w.known {
			n++
		}
	}
	return n
}

// meter takes samples.
type meter struct {
	pool        *pgxpool.Pool
	fleet       *fleet
	projections []string
	former      map[string]bool // owners that were recorded before our workers started
	owners      map[int]string  // by worker number
	appended    func() int64    // nil: nothing yet

	begun    time.Time
	base     int64 // applied when the load began
	previous sample
}

func newMeter(ctx context.Context, pool *pgxpool.Pool, fleet *fleet) (*meter, error) {
	m := &meter{pool: pool, fleet: fleet, former: map[string]bool{}, owners: map[int]string{}, begun: time.Now()}
	projections, err := tabletop.Projections()
	if err != nil {
		return nil, err
	}
	for _, p := range projections {
		m.projections = append(m.projections, p.Spec().Name)
	}
	recorded, err := lease.Workers(ctx, pool)
	if err != nil {
		return nil, err
	}
	for _, w := range recorded {
		m.former[w.Owner] = true
	}
	return m, nil
}

// begin makes the last sample the one that counts start from.
func (m *meter) begin() {
	m.begun = time.Now()
	m.base += m.previous.applied
	m.previous = sample{}
}

// owner is the name under which a worker holds leases.
func (m *meter) owner(w *worker) string { return m.owners[w.number] }

func (m *meter) read(ctx context.Context) (sample, error) {
	s := sample{at: time.Since(m.begun)}
	// In this order: what no longer lags is counted as applied, and what is applied as appended.
	if err := m.readLag(ctx, &s); err != nil {
		return sample{}, err
	}
	applied, err := lease.Applied(ctx, m.pool, group)
	if err != nil {
		return sample{}, err
	}
	s.applied = applied - m.base
	if err := m.readWorkers(ctx, &s); err != nil {
		return sample{}, err
	}
	if m.appended != nil {
		s.appended = m.appended()
	}
	if seconds := (s.at - m.previous.at).Seconds(); seconds > 0 {
		s.appendedRate = float64(s.appended-m.previous.appended) / seconds
		s.appliedRate = float64(s.applied-m.previous.applied) / seconds
	}
	m.previous = s
	return s, nil
}

// readLag takes the lag of the slowest: the group, or one of our projections.
func (m *meter) readLag(ctx context.Context, s *sample) error {
	lags, err := outbox.Lag(ctx, m.pool)
	if err != nil {
		return err
	}
	for _, behind := range lags {
		if behind.Group == group && (behind.Projection == "" || slices.Contains(m.projections, behind.Projection)) {
			s.lag, s.age = max(s.lag, behind.Events), max(s.age, behind.Age)
		}
	}
	return nil
}

func (m *meter) readWorkers(ctx context.Context, s *sample) error {
	recorded, err := lease.Workers(ctx, m.pool)
	if err != nil {
		return err
	}
	for _, process := range m.fleet.workers {
		w := workerSample{number: process.number, pid: process.pid, state: process.state()}
		for _, r := range recorded {
			if r.PID == process.pid && r.ConsumerGroup == group && !m.former[r.Owner] {
				m.owners[process.number] = r.Owner
				w.known, w.held, w.applied = true, r.CampaignsHeld, r.EventsApplied
			}
		}
		s.workers = append(s.workers, w)
	}
	return nil
}

package publisher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// Relay publishes the pairs that it holds. Several relays, in one process or in many, share the
// pairs among them.
//
// One goroutine, the loop, owns all state. Reading, sending and writing are jobs: goroutines that
// get what they need and post a function for the loop to run.
type Relay struct {
	*agenda
	// time limit of one pass of the loop: it looks at everything once a minute and never blocks for long
	around time.Duration
	pulse  loops.Pulse

	listener   *listener
	saver      *saver
	history    *history
	reader     *reader
	parker     *parker
	drainer    *drainer
	dispatcher *dispatcher
	claimer    *claimer
}

// New checks the configuration and returns a relay. It does not touch the database or the sinks.
func New(cfg Config) (*Relay, error) {
	cfg, err := cfg.withDefaults()
	routes, routesErr := routesOf(cfg)
	if err := errors.Join(err, routesErr); err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	m, err := newMetrics(cfg.Registerer, slices.Collect(maps.Keys(routes)))
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return newRelay(cfg, routes, m, id.String(), host), nil
}

func newRelay(cfg Config, routes map[publications.Key]*route, m *metrics, owner, host string) *Relay {
	b := &base{
		cfg: cfg, db: ledger.New(cfg.Pool, owner, ledger.Publisher, cfg.LeaseTTL), routes: routes, metrics: m, owner: owner,
		tickEvery: min(time.Second, cfg.LeaseTTL/5),
		inbox:     make(chan func(), 64), gone: make(chan struct{}),
	}
	a := &agenda{base: b, pairs: map[publications.Key]*pair{}}
	r := &Relay{
		agenda: a, around: 3 * time.Minute,
		listener: newListener(cfg.Pool, cfg.Logger),
		saver:    &saver{agenda: a}, history: &history{agenda: a, sent: map[publications.Key]recent{}}, parker: &parker{a},
	}
	r.reader = newReader(a, r.listener)
	r.drainer = &drainer{agenda: a, saver: r.saver, history: r.history}
	r.dispatcher = &dispatcher{agenda: a, reader: r.reader, parker: r.parker, saver: r.saver, history: r.history}
	r.claimer = &claimer{
		agenda: a, host: host, reader: r.reader, saver: r.saver, history: r.history, drainer: r.drainer,
		generations: map[publications.Key]int64{},
	}
	return r
}

// Run publishes until ctx is cancelled. It then lets current batches finish, writes positions,
// releases its pairs and returns nil. It waits out failures of the database and of sinks.
func (r *Relay) Run(ctx context.Context) error {
	patient, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	r.ctx = patient
	var others sync.WaitGroup
	if !r.cfg.NoListen {
		others.Go(func() { r.listener.run(ctx) })
	}
	r.loop(ctx, cut)
	cut()
	others.Wait()
	return nil
}

// Stuck returns "relay" while Run's loop is overdue. The loop waits neither for the database nor
// for sinks, so it is fit for liveness probes.
func (r *Relay) Stuck() []string { return r.pulse.Stuck(time.Now()) }

// cutTimeout is how long cancelled jobs may take to end.
const cutTimeout = 5 * time.Second

func (r *Relay) loop(ctx context.Context, cut context.CancelFunc) {
	defer close(r.gone)
	stop := ctx.Done()
	var deadline <-chan time.Time // of the shutdown
	timer := time.NewTimer(0)
	defer timer.Stop()
	turn := r.pulse.Loop("relay")
	defer turn.Rest()
	for {
		turn.Within(r.around)
		next := r.schedule(time.Now())
		if r.stopping && len(r.pairs) == 0 && r.working == 0 {
			r.claimer.forget()
			return
		}
		timer.Reset(time.Until(next))
		select {
		case f := <-r.inbox:
			f()
			r.drainInbox()
		case <-timer.C:
		case <-r.listener.wake:
			r.reader.awake()
		case <-r.listener.changed:
			r.claimer.tickSoon()
		case <-stop:
			stop = nil
			r.stopping = true
			t := time.NewTimer(r.cfg.ShutdownTimeout)
			defer t.Stop()
			deadline = t.C
			for _, p := range r.pairs {
				r.leave(p)
			}
		case <-deadline:
			// Cancel what has not ended by now. The next owner sends it again.
			if cut(); len(r.pairs) == 0 {
				r.cfg.Logger.ErrorContext(r.ctx, "the shutdown no longer waits", "jobs", r.working)
				return
			}
			deadline = time.After(cutTimeout)
			for _, p := range r.pairs {
				if p.busy {
					r.cfg.Logger.WarnContext(r.ctx, "a batch was cut off by the shutdown", "topic", p.Topic, "publisher", p.Publisher)
				}
				r.drop(p)
			}
		}
	}
}

// schedule starts all that can be started and returns the time of the next pass.
func (r *Relay) schedule(now time.Time) time.Time {
	if !r.claimer.ticking && !now.Before(r.nextTick) && !r.stopping {
		r.claimer.tick(now)
	}
	if !now.Before(r.due) {
		r.due, r.reader.hungry = now.Add(time.Minute), true
		for _, p := range r.pairs {
			r.look(p)
		}
	}
	for len(r.ready) > 0 {
		ready := r.ready
		r.ready = nil
		for _, p := range ready {
			if r.pairs[p.Key] == p {
				r.dispatcher.advance(p, now)
			}
		}
	}
	r.reader.startReads(now)
	r.saver.save(now)
	next := r.due
	if !r.claimer.ticking && !r.stopping && r.nextTick.Before(next) {
		next = r.nextTick
	}
	return next
}

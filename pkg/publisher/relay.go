package publisher

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/internal/pulse"
)

// base is what all parts of a relay share: its configuration, the database, and the way to do what takes time.
type base struct {
	cfg       Config
	db        connections
	routes    map[Key]*route
	metrics   *metrics
	owner     string
	tickEvery time.Duration

	ctx     context.Context // of jobs: lives on for a while when Run's ends
	inbox   chan func()     // results of jobs
	gone    chan struct{}   // closed when the loop has ended
	working int             // jobs that have not posted yet
}

// agenda is the pairs that this process holds, and what the loop is to look at when.
type agenda struct {
	*base
	pairs    map[Key]*pair
	ready    []*pair // to be looked at
	due      time.Time
	nextTick time.Time
	stopping bool
	hurry    bool   // a pair is to be given back
	instance string // of the database, as it was last seen
	journals int    // that have taken the place of one another, perhaps
}

// Relay publishes the pairs that it holds. Several may run, in one process or in many; they share the pairs among them.
//
// One goroutine, the loop, owns all state. Whatever takes time (reading, sending, writing) is a job: a goroutine that is given what it needs, and posts what the loop
// is to do with its result.
type Relay struct {
	*agenda
	around time.Duration // by when the loop has gone round: it looks at everything once a minute, and does nothing that takes time
	pulse  pulse.Pulse

	listener   *listener
	pruner     *pruner
	registrar  *registrar
	saver      *saver
	history    *history
	reader     *reader
	parker     *parker
	drainer    *drainer
	dispatcher *dispatcher
	claimer    *claimer
}

func newRelay(cfg Config, routes map[Key]*route, m *metrics, owner, host string) *Relay {
	b := &base{
		cfg: cfg, db: newConnections(cfg.Pool), routes: routes, metrics: m, owner: owner, tickEvery: min(time.Second, cfg.LeaseTTL/5),
		inbox: make(chan func(), 64), gone: make(chan struct{}),
	}
	a := &agenda{base: b, pairs: map[Key]*pair{}}
	r := &Relay{
		agenda: a, around: 3 * time.Minute,
		listener: newListener(b), pruner: &pruner{b}, registrar: newRegistrar(b, host),
		saver: &saver{agenda: a}, history: &history{agenda: a, sent: map[Key]recent{}}, parker: &parker{a},
	}
	r.reader = newReader(a, r.listener)
	r.drainer = &drainer{agenda: a, saver: r.saver, history: r.history}
	r.dispatcher = &dispatcher{agenda: a, reader: r.reader, parker: r.parker, saver: r.saver, history: r.history}
	r.claimer = &claimer{
		agenda: a, registrar: r.registrar, reader: r.reader, saver: r.saver, history: r.history, drainer: r.drainer,
		generations: map[Key]int64{}, members: map[string]map[Key]bool{},
	}
	return r
}

// Run publishes until ctx is cancelled. It then lets batches under way finish, writes down how far they got, gives its pairs back and returns nil. Failures of the
// database and of sinks are waited out.
func (r *Relay) Run(ctx context.Context) error {
	patient, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	r.ctx = patient
	var others sync.WaitGroup
	if !r.cfg.NoListen {
		others.Go(func() { r.listener.listen(ctx) })
	}
	others.Go(func() { r.pruner.pruneLog(ctx) })
	r.loop(ctx, cut)
	cut()
	others.Wait()
	return nil
}

// Stuck answers "relay" while Run's loop is not back by when it must be, whatever the database and the sinks do: the loop waits for neither. It is for liveness probes.
func (r *Relay) Stuck() []string { return r.pulse.Stuck(time.Now()) }

// cutTimeout is how long jobs that were cut off may take to notice.
const cutTimeout = 5 * time.Second

// loop waits for what comes next, and does it.
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
			r.registrar.forget()
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
		case <-r.listener.nudge:
			r.claimer.nudge()
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
			// What has not ended by now is cut off, and sent again by whoever takes over.
			if cut(); len(r.pairs) == 0 {
				r.cfg.Logger.ErrorContext(r.ctx, "the shutdown waits for nobody any more", "jobs", r.working)
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

// drainInbox does what else has been posted, so that one look at what is due follows many results.
func (b *base) drainInbox() {
	for {
		select {
		case f := <-b.inbox:
			f()
		default:
			return
		}
	}
}

// job runs work in a goroutine. What it answers is done by the loop.
func (b *base) job(work func() (then func())) {
	b.working++
	go func() {
		then := work()
		select {
		case b.inbox <- func() {
			b.working--
			then()
		}:
		case <-b.gone:
		}
	}()
}

// schedule starts all that can be started and answers when to look again.
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

// look has the loop look at a pair.
func (a *agenda) look(p *pair) { a.ready = append(a.ready, p) }

// at has the loop look again at t.
func (a *agenda) at(t time.Time) {
	if t.Before(a.due) {
		a.due = t
	}
}

// advance does the next thing for a pair.
func (d *dispatcher) advance(p *pair, now time.Time) {
	switch {
	case p.busy || p.leaving: // a leaving pair is given back by save
	case now.After(p.trusted):
		// Nothing more is sent under a lease that may be another's. A save that gets through makes it ours again.
		d.at(now.Add(d.tickEvery))
	case now.Before(p.notBefore):
		d.at(p.notBefore)
	case len(p.parks) > 0:
		d.parker.writeParks(p)
	case len(p.pending) > 0 && p.failures > 0:
		d.sendRound(p)
	default:
		d.fill(p, now)
	}
}

// fill gives a pair its next round, what is left of the last one and more from memory, or lets it wait for a page.
func (d *dispatcher) fill(p *pair, now time.Time) {
	room, before := d.room(p), p.read
	for len(p.pending) < room {
		page := d.reader.cache.at(p.read)
		if page == nil {
			break
		}
		p.take(page, room)
	}
	p.settle(now)
	if len(p.pending) > 0 {
		p.wanting, p.polled, p.empty, p.nextPoll = false, false, 0, time.Time{}
		d.sendRound(p)
		d.reader.prefetch(p, now)
		return
	}
	if p.read >= d.reader.head {
		p.pending = nil // there may be many pairs that wait
	}
	d.reader.hungry = true
	if !p.wanting || p.read > before {
		p.wanting, p.since = true, now
	}
	if p.polled && p.read >= d.reader.head {
		p.empty++
		p.nextPoll = now.Add(d.reader.pollDelay(p))
	}
	p.polled = false
}

// pollDelay is how long a pair that has found nothing waits before it looks again.
func (r *reader) pollDelay(p *pair) time.Duration {
	interval := r.cfg.PollInterval
	if r.inFlight > 0 { // what is being appended comes soon, and who commits it may not know that somebody waits
		return min(5*time.Millisecond<<min(r.inFlight, 10), interval)
	}
	d := min(interval<<min(max(p.empty-r.cfg.IdleAfter, 0), 20), max(r.cfg.IdleMax, interval))
	return d + time.Duration(rand.Int64N(int64(interval/2)+1))
}

// awake looks at the journal at once.
func (r *reader) awake() {
	r.wakes++
	r.hungry = true
	for _, p := range r.pairs {
		if p.wanting {
			p.nextPoll, p.empty = time.Time{}, 0
		}
	}
}

// leave gives a pair back once it is not busy.
func (a *agenda) leave(p *pair) {
	p.leaving, a.hurry = true, true
	p.stopDrains()
}

// drop forgets a pair that is not ours any more.
func (a *agenda) drop(p *pair) {
	p.cancel()
	if a.pairs[p.Key] == p {
		delete(a.pairs, p.Key)
		a.metrics.held.Set(float64(len(a.pairs)))
	}
}

// signal leaves a token that somebody will find; one is enough.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits; it returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

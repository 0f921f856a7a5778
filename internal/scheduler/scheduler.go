// Package scheduler makes scheduled appends when they are due. Each worker runs one [Scheduler].
// They share the work by the campaigns' own locks, so any number may run, and a dead one holds
// nothing (docs/adr/0012). A Scheduler is safe for one Run at a time.
package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/store/scheduled"
)

const (
	// heldWait is the time between two looks while open transactions hold due appends.
	heldWait = 100 * time.Millisecond

	// mostSkipped is the maximum number of busy campaigns that a pass leaves out. Each costs a
	// comparison for each due append.
	mostSkipped = 50

	mostBackoff = 5 * time.Second // after a failure of the database

	// wholeEvery is the longest time between looks from the beginning. An old snapshot keeps the index entries
	// of appends that are made, and each look from the beginning steps over them.
	wholeEvery = time.Second
)

// Config configures a [Scheduler]. All fields but Listener are required.
type Config struct {
	Pool         *pgxpool.Pool
	Logger       *slog.Logger
	Registerer   prometheus.Registerer
	PollInterval time.Duration // longest time between two looks
	Timeout      time.Duration // of one request
	Pulse        *loops.Pulse  // gets the scheduler's loop
	Listener     Listener      // nil: poll only
}

// Listener hears that an append became due before the end of the announced sleep.
type Listener interface {
	Listening() bool
	Due() <-chan struct{}
}

// Scheduler looks for due appends and makes them.
type Scheduler struct {
	cfg            Config
	loop           *loops.Loop
	stuck          chan string      // a campaign whose lock is to be waited for
	from           *scheduled.Place // all due appends before it are made, but for those scheduled since whole
	whole          time.Time        // of the last look from the beginning
	fired, refused prometheus.Counter
}

// New returns a scheduler. It does not touch the database.
func New(cfg Config) (*Scheduler, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	s := &Scheduler{
		cfg: cfg, loop: cfg.Pulse.Loop("scheduled appends"), stuck: make(chan string),
		fired:   counter("tidemark_scheduled_fired_total", "Scheduled appends that this worker has made."),
		refused: counter("tidemark_scheduled_refused_total", "Attempts at scheduled appends that were refused."),
	}
	return s, errors.Join(cfg.Registerer.Register(s.fired), cfg.Registerer.Register(s.refused))
}

// Run makes due appends until ctx is cancelled. It waits out failures of the database.
func (s *Scheduler) Run(ctx context.Context) {
	defer s.loop.Rest()
	var waiter sync.WaitGroup
	defer waiter.Wait()
	waiter.Go(func() { s.wait(ctx) })
	for failures := 0; ctx.Err() == nil; {
		s.loop.Within(2 * (s.cfg.Timeout + s.cfg.PollInterval + mostBackoff))
		sleep, err := s.step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			limit := min(50*time.Millisecond<<min(failures, 10), mostBackoff)
			sleep = time.Millisecond + time.Duration(rand.Int64N(int64(limit)))
			failures++
			s.cfg.Logger.WarnContext(ctx, "due appends not made", "error", redact.Wrap(err), "wait", sleep)
		default:
			failures = 0
		}
		s.sleep(ctx, sleep)
	}
}

// step makes due appends until there are none, and returns how long to sleep. The last pass first
// announces the sleep, so an append that it misses notifies, or is found by the next look from the beginning.
func (s *Scheduler) step(ctx context.Context) (sleep time.Duration, err error) {
	for made, last := int64(0), false; ; last = made == 0 {
		look := scheduled.Look{}
		if last {
			look.Sleep, look.Listens = s.cfg.PollInterval, s.cfg.Listener != nil && s.cfg.Listener.Listening()
		}
		made, sleep, err = s.pass(ctx, look)
		if err != nil || last && made == 0 {
			return sleep, err
		}
	}
}

// pass goes once over all due appends, but those of a busy campaign are passed over after the first.
func (s *Scheduler) pass(ctx context.Context, look scheduled.Look) (made int64, sleep time.Duration, err error) {
	from, kept := s.from, true
	if s.from == nil || time.Since(s.whole) >= wholeEvery {
		s.whole = time.Now()
	} else {
		look.After = s.from
	}
	defer func() { s.from = from }()
	for first := true; ; first = false {
		done, err := s.fire(ctx, look)
		if err != nil {
			from = nil
			return made, 0, err
		}
		made += done.Appends
		if first {
			sleep = done.Sleep
		}
		if first && look.After != nil {
			sleep = min(sleep, max(time.Millisecond, wholeEvery-time.Since(s.whole)))
		}
		if kept = kept && len(done.Busy) == 0 && done.Held == 0; !kept {
			from = nil
		} else if done.After != nil {
			from = done.After
		}
		if n := len(done.Busy); n > 0 {
			select {
			case s.stuck <- done.Busy[rand.IntN(n)]:
			default: // it waits for another
			}
		}
		if len(done.Busy) > 0 || done.Held > 0 {
			sleep = min(sleep, heldWait)
		}
		if !done.More {
			return made, sleep, nil
		}
		look = scheduled.Look{After: done.After, Skip: append(look.Skip, done.Busy[:min(len(done.Busy), mostSkipped)]...)}
		look.Skip = look.Skip[max(0, len(look.Skip)-mostSkipped):]
	}
}

// wait waits for the locks of campaigns, one at a time: a campaign whose lock always has a queue is
// never found free. Meanwhile the others go on.
func (s *Scheduler) wait(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case campaign := <-s.stuck:
			if _, err := s.fire(ctx, scheduled.Look{Campaign: campaign}); err != nil && ctx.Err() == nil {
				s.cfg.Logger.WarnContext(ctx, "due appends not made", "campaign", campaign, "error", redact.Wrap(err))
			}
		}
	}
}

func (s *Scheduler) fire(ctx context.Context, look scheduled.Look) (scheduled.Fired, error) {
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	done, err := scheduled.Fire(bounded, s.cfg.Pool, look)
	s.fired.Add(float64(done.Appends))
	s.refused.Add(float64(done.Refused))
	if done.Refused > 0 {
		s.cfg.Logger.WarnContext(ctx, "scheduled appends refused, see tidemark scheduled list --refused",
			"failures", done.Refused)
	}
	return done, err
}

// sleep waits until the time is over, or an append is due earlier.
func (s *Scheduler) sleep(ctx context.Context, d time.Duration) {
	var due <-chan struct{}
	if s.cfg.Listener != nil {
		due = s.cfg.Listener.Due()
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	case <-due:
		s.from = nil // it may be due before
	}
}

package statistics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a [Sink].
type Config struct {
	Name      string        // default "statistics"
	Logger    *slog.Logger  // required
	Every     time.Duration // how often to log; default 10s, at least 100ms
	Separator string        // what ends a campaign's prefix; default "-". A campaign without it counts under "*"
}

// Count is how many events of a type have been sent for campaigns with a prefix.
type Count struct {
	EventType, Prefix string
	Events            int64
}

const (
	maxCounts    = 1000
	other        = "other"
	defaultEvery = 10 * time.Second
	minEvery     = 100 * time.Millisecond
)

// Sink counts events.
type Sink struct {
	cfg Config

	mu     sync.Mutex
	closed bool
	counts map[key]*tally
	timer  *time.Timer // runs while there is something to log; nil until then
}

type key struct{ eventType, prefix string }

type tally struct{ all, unlogged int64 }

// New checks the configuration.
func New(cfg Config) (*Sink, error) {
	cfg.Name = cmp.Or(cfg.Name, "statistics")
	cfg.Every = cmp.Or(cfg.Every, defaultEvery)
	cfg.Separator = cmp.Or(cfg.Separator, "-")
	var errs []error
	if cfg.Logger == nil {
		errs = append(errs, errors.New("Logger is missing: name the log to write to"))
	}
	if cfg.Every < minEvery {
		errs = append(errs, fmt.Errorf("every is %s: it must be at least %s", cfg.Every, minEvery))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Sink{cfg: cfg, counts: map[key]*tally{}}, nil
}

// Name is the configured name.
func (s *Sink) Name() string { return s.cfg.Name }

// Publish counts the events.
func (s *Sink) Publish(ctx context.Context, events []publisher.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return publisher.ErrClosed
	}
	for i := range events {
		t := s.tally(&events[i])
		t.all++
		t.unlogged++
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(s.cfg.Every, s.tick)
	}
	return nil
}

// Counts answers what was sent since the sink was opened, the most frequent first.
func (s *Sink) Counts() []Count {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list(func(t *tally) int64 { return t.all })
}

// Close logs what has not been logged yet.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.closed = true
	s.log()
	return nil
}

func (s *Sink) tally(e *publisher.Event) *tally {
	k := key{strings.Clone(e.Type), "*"}
	if prefix, _, ok := strings.Cut(e.CampaignID, s.cfg.Separator); ok {
		k.prefix = strings.Clone(prefix) + s.cfg.Separator
	}
	t := s.counts[k]
	if t == nil && len(s.counts) >= maxCounts {
		k = key{other, other}
		t = s.counts[k]
	}
	if t == nil {
		t = &tally{}
		s.counts[k] = t
	}
	return t
}

func (s *Sink) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	s.log()
}

// log says what was counted since the last time.
func (s *Sink) log() {
	for _, c := range s.list(func(t *tally) int64 { return t.unlogged }) {
		s.cfg.Logger.Info("events counted", "event_type", c.EventType, "campaign_prefix", c.Prefix, "events", c.Events)
	}
	for _, t := range s.counts {
		t.unlogged = 0
	}
}

func (s *Sink) list(of func(*tally) int64) (counts []Count) {
	for k, t := range s.counts {
		if n := of(t); n > 0 {
			counts = append(counts, Count{k.eventType, k.prefix, n})
		}
	}
	slices.SortFunc(counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.EventType, b.EventType), cmp.Compare(a.Prefix, b.Prefix))
	})
	return counts
}

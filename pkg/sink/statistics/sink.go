// Package statistics is a sink that counts events by type and campaign prefix, for trying out: how
// much would a topic publish, and what?
//
// Counts are logged periodically and when the sink is closed. An event that is sent again counts
// again. Beyond 1,000 pairs of type and prefix, events count as "other".
//
// Stability: as of version 1, no setting changes its meaning or its default.
package statistics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a sink.
type Config struct {
	Name   string        // default "statistics"
	Logger *slog.Logger  // required
	Every  time.Duration // how often to log; default 10s, at least 100ms
}

const (
	maxCounts    = 1000
	other        = "other"
	separator    = "-" // ends a campaign's prefix; campaigns without it count under "*"
	defaultEvery = 10 * time.Second
	minEvery     = 100 * time.Millisecond
)

type sink struct {
	cfg Config

	mu     sync.Mutex
	closed bool
	counts map[key]int64 // since the last log
	timer  *time.Timer   // runs while there is something to log; nil until then
}

type key struct{ eventType, prefix string }

// New checks the configuration.
func New(cfg Config) (publisher.Sink, error) {
	cfg.Name = cmp.Or(cfg.Name, "statistics")
	cfg.Every = cmp.Or(cfg.Every, defaultEvery)
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
	return &sink{cfg: cfg, counts: map[key]int64{}}, nil
}

func (s *sink) Name() string { return s.cfg.Name }

func (s *sink) Publish(ctx context.Context, events []publisher.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return publisher.ErrClosed
	}
	for i := range events {
		s.count(&events[i])
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(s.cfg.Every, s.tick)
	}
	return nil
}

// Close logs the remaining counts.
func (s *sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.closed = true
	s.log()
	return nil
}

func (s *sink) count(e *publisher.Event) {
	k := key{strings.Clone(e.Type), "*"}
	if prefix, _, ok := strings.Cut(e.CampaignID, separator); ok {
		k.prefix = strings.Clone(prefix) + separator
	}
	if s.counts[k] == 0 && len(s.counts) >= maxCounts {
		k = key{other, other}
	}
	s.counts[k]++
}

func (s *sink) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	s.log()
}

// log logs the counts since the last time, the most frequent first.
func (s *sink) log() {
	keys := slices.SortedFunc(maps.Keys(s.counts), func(a, b key) int {
		return cmp.Or(cmp.Compare(s.counts[b], s.counts[a]), cmp.Compare(a.eventType, b.eventType),
			cmp.Compare(a.prefix, b.prefix))
	})
	for _, k := range keys {
		s.cfg.Logger.Info("events counted", "event_type", k.eventType, "campaign_prefix", k.prefix, "events", s.counts[k])
	}
	clear(s.counts)
}

// Kind is the kind "statistics": "statistics:", "statistics:?every=1m", or settings.
func Kind() publisher.Kind {
	return publisher.Kind{Name: "statistics", Open: func(s publisher.Settings) (publisher.Sink, error) {
		var settings struct {
			Every time.Duration `yaml:"every"`
		}
		err := setting.ReadWithoutAddress(s, &settings, `statistics have no address: write "statistics:"`)
		if err != nil {
			return nil, err
		}
		return New(Config{Name: s.Publisher, Logger: s.Logger, Every: settings.Every})
	}}
}

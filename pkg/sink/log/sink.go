// Package log is a sink that writes events to the worker's log, for trying out: one record each,
// optionally with the body. Do not rely on a log to keep events: its readers may lose some, and a
// record counts as published once the log's handler has been called.
//
// Stability: as of version 1, no setting changes its meaning or its default.
package log

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a sink.
type Config struct {
	Name    string       // default "log"
	Logger  *slog.Logger // required
	Level   slog.Level   // of the records; default slog.LevelInfo
	Body    bool         // also log each encoded body, which may be too private for a log
	Encoder publisher.Encoder
}

type sink struct {
	cfg    Config
	closed atomic.Bool
}

// New checks the configuration.
func New(cfg Config) (publisher.Sink, error) {
	cfg.Name = cmp.Or(cfg.Name, "log")
	err := cfg.Encoder.Check()
	if cfg.Logger == nil {
		err = errors.Join(err, errors.New("Logger is missing: name the log to write to"))
	}
	if err != nil {
		return nil, err
	}
	return &sink{cfg: cfg}, nil
}

func (s *sink) Name() string { return s.cfg.Name }

func (s *sink) Publish(ctx context.Context, events []publisher.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return publisher.ErrClosed
	}
	if !s.cfg.Logger.Enabled(ctx, s.cfg.Level) {
		return nil
	}
	for i := range events {
		e := &events[i]
		attrs := make([]slog.Attr, 0, 8)
		attrs = append(attrs, slog.String("topic", e.Topic), slog.String("event_id", e.ID.String()),
			slog.String("event_type", e.Type), slog.Int("version", e.Version),
			slog.String("campaign_id", e.CampaignID), slog.Int64("seq", e.Seq), slog.Int64("position", e.Position))
		if s.cfg.Body {
			attrs = append(attrs, slog.String("body", string(s.cfg.Encoder.AppendBody(nil, e))))
		}
		s.cfg.Logger.LogAttrs(ctx, s.cfg.Level, "event", attrs...)
	}
	return nil
}

// Close ends publishing. The log stays open.
func (s *sink) Close() error {
	s.closed.Store(true)
	return nil
}

// Kind is the kind "log": "log:", "log:?level=debug&body=true", or settings.
func Kind() publisher.Kind {
	return publisher.Kind{Name: "log", Open: func(s publisher.Settings) (publisher.Sink, error) {
		var settings struct {
			Level string `yaml:"level"`
			Body  bool   `yaml:"body"`
		}
		if err := setting.ReadWithoutAddress(s, &settings, `a log has no address: write "log:"`); err != nil {
			return nil, err
		}
		var level slog.Level
		if settings.Level != "" {
			if err := level.UnmarshalText([]byte(settings.Level)); err != nil {
				return nil, fmt.Errorf("level is %q: it must be debug, info, warn or error", settings.Level)
			}
		}
		return New(Config{Name: s.Publisher, Logger: s.Logger, Level: level, Body: settings.Body, Encoder: s.Encoder})
	}}
}

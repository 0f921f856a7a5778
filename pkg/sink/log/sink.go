package log

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a sink.
type Config struct {
	Name    string       // default "log"
	Logger  *slog.Logger // required
	Level   slog.Level   // of the records; default slog.LevelInfo
	Body    bool         // also log what the encoder makes of each event: it may hold what does not belong into a log
	Encoder publisher.Encoder
}

// sink writes events to a log.
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

// Name is the configured name.
func (s *sink) Name() string { return s.cfg.Name }

// Publish logs the events.
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

// Close lets nothing more be published. The log stays open.
func (s *sink) Close() error {
	s.closed.Store(true)
	return nil
}

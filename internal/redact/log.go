package redact

import (
	"context"
	"log/slog"

	"github.com/tidemark-go/tidemark/internal/slice"
)

// Logger returns a logger to the same handler that logs each error as [Error] returns it.
func Logger(logger *slog.Logger) *slog.Logger {
	if _, done := logger.Handler().(*handler); done {
		return logger
	}
	return slog.New(&handler{logger.Handler()})
}

type handler struct{ to slog.Handler }

// Enabled implements [slog.Handler].
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(attribute(a))
		return true
	})
	return h.to.Handle(ctx, clean)
}

// WithAttrs implements [slog.Handler].
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.to.WithAttrs(slice.Of(attrs, attribute))}
}

// WithGroup implements [slog.Handler].
func (h *handler) WithGroup(name string) slog.Handler { return &handler{h.to.WithGroup(name)} }

func attribute(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	if a.Value.Kind() == slog.KindGroup {
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(slice.Of(a.Value.Group(), attribute)...)}
	}
	if err, ok := a.Value.Any().(error); ok && err != nil {
		a.Value = slog.StringValue(Error(err))
	}
	return a
}

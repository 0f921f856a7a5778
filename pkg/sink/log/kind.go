package log

import (
	"fmt"
	"log/slog"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Kind is the kind "log": "log:", "log:?level=debug&body=true", or settings.
func Kind() publisher.Kind {
	return publisher.Kind{Name: "log", Open: func(s publisher.Settings) (publisher.Sink, error) {
		var settings struct {
			Level string `yaml:"level"`
			Body  bool   `yaml:"body"`
		}
		if s.URL != nil && s.URL.Host+s.URL.Path+s.URL.Opaque != "" {
			return nil, fmt.Errorf(`the URL names %q, and a log has no address: write "log:"`,
				s.URL.Host+s.URL.Path+s.URL.Opaque)
		}
		if err := setting.Read(s, &settings); err != nil {
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

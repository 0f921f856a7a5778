package statistics

import (
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Kind is the kind "statistics": "statistics:", "statistics:?every=1m", or settings.
func Kind() publisher.Kind {
	return publisher.Kind{Name: "statistics", Open: func(s publisher.Settings) (publisher.Sink, error) {
		var settings struct {
			Every time.Duration `yaml:"every"`
		}
		if s.URL != nil && s.URL.Host+s.URL.Path+s.URL.Opaque != "" {
			return nil, fmt.Errorf(`the URL names %q, and statistics have no address: write "statistics:"`,
				s.URL.Host+s.URL.Path+s.URL.Opaque)
		}
		if err := setting.Read(s, &settings); err != nil {
			return nil, err
		}
		return New(Config{Name: s.Publisher, Logger: s.Logger, Every: settings.Every})
	}}
}

package file

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Kind is the kind "file": file:///var/log/events.ndjson, "stdout:", or settings.
func Kind() publisher.Kind {
	return publisher.Kind{
		Name: "file", Schemes: []string{"stdout"},
		Open: func(s publisher.Settings) (publisher.Sink, error) {
			var settings struct {
				Path    string        `yaml:"path"`
				MaxSize string        `yaml:"max_size"` // "64MiB"
				MaxAge  time.Duration `yaml:"max_age"`
				Sync    *bool         `yaml:"sync"`
			}
			if s.URL != nil {
				settings.Path = s.URL.Path + s.URL.Opaque
				if s.URL.Scheme == "stdout" {
					settings.Path = "-"
				}
			}
			if err := s.Decode(&settings); err != nil {
				return nil, err
			}
			size, err := bytesOf(settings.MaxSize)
			if err != nil {
				return nil, err
			}
			return New(Config{
				Name: s.Publisher, Path: settings.Path, MaxSize: size, MaxAge: settings.MaxAge, NoSync: settings.Sync != nil &&
					!*settings.Sync, Encoder: s.Encoder,
			})
		},
	}
}

// bytesOf reads a size such as 64MiB; empty is none.
func bytesOf(text string) (int64, error) {
	number, factor := strings.TrimSpace(text), int64(1)
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if rest, ok := strings.CutSuffix(number, unit); ok {
			number, factor = strings.TrimSpace(rest), 1<<(10*(i+1))
		}
	}
	if number == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > 1<<62/factor {
		return 0, fmt.Errorf("max_size %q is not a size such as 1048576, 512KiB, 64MiB or 2GiB", text)
	}
	return n * factor, nil
}

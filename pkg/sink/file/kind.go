package file

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Kind is the kind "file": file:///var/log/events.ndjson, "stdout:", or settings.
func Kind() publisher.Kind {
	return publisher.Kind{
		Name: "file", Schemes: []string{"stdout"},
		Open: func(s publisher.Settings) (publisher.Sink, error) {
			own := struct {
				Config  `yaml:",inline"`
				MaxSize string `yaml:"max_size"` // "64MiB"
				Sync    bool   `yaml:"sync"`
			}{Sync: true}
			if s.URL != nil {
				own.Path = s.URL.Path + s.URL.Opaque
				if s.URL.Scheme == "stdout" {
					own.Path = "-"
				}
			}
			err := s.Decode(&own)
			if err != nil {
				return nil, err
			}
			if own.Config.MaxSize, err = bytesOf(own.MaxSize); err != nil {
				return nil, err
			}
			own.Name, own.NoSync, own.Encoder = s.Publisher, !own.Sync, s.Encoder
			return New(own.Config)
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

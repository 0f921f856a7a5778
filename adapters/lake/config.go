package lake

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a [Sink].
type Config struct {
	Name string // default "lake"
	Path string `yaml:"path"` // required: the folder of the table, which exists and belongs to one journal
	// how long files that were merged into others stay for readers, from 1m; default 24h
	Keep time.Duration `yaml:"keep"`
	// leave small files as they are
	NoMerge bool         `yaml:"no_merge"`
	Logger  *slog.Logger // default: discard
}

const (
	defaultKeep = 24 * time.Hour
	minKeep     = time.Minute
)

func (cfg *Config) fill() error {
	cfg.Name = cmp.Or(cfg.Name, "lake")
	cfg.Keep = cmp.Or(cfg.Keep, defaultKeep)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	var errs []error
	switch {
	case cfg.Path == "":
		errs = append(errs, errors.New("path is missing: write lake:///path/to/folder"))
	case !filepath.IsAbs(cfg.Path):
		errs = append(errs, fmt.Errorf("path is %q: it must begin with /", cfg.Path))
	}
	if cfg.Keep < minKeep {
		errs = append(errs, fmt.Errorf("keep is %s: it must be at least %s", cfg.Keep, minKeep))
	}
	return errors.Join(errs...)
}

// Kind is the kind "lake": lake:///path/to/folder, or settings.
func Kind() publisher.Kind {
	return publisher.Kind{Name: "lake", Open: func(s publisher.Settings) (publisher.Sink, error) {
		var own Config
		if s.URL != nil {
			if own.Path = s.URL.Path; s.URL.Host+s.URL.Opaque != "" {
				return nil, fmt.Errorf("the URL names the host %q: write lake:///path/to/folder, with three slashes",
					s.URL.Host+s.URL.Opaque)
			}
		}
		if err := setting.Read(s, &own); err != nil {
			return nil, err
		}
		own.Name, own.Logger = s.Publisher, s.Logger
		return New(own)
	}}
}

package pubsub

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a [Sink].
type Config struct {
	Name    string // default "pubsub"
	Project string `yaml:"project"` // required, its id
	Topic   string `yaml:"topic"`   // required, its id; it must exist
	// host:port, e.g. europe-west1-pubsub.googleapis.com:443; order is kept within a region. Default: global
	Endpoint string `yaml:"endpoint"`
	// host:port of an emulator, used without TLS and credentials
	Emulator string `yaml:"emulator"`
	// how long the client tries a request, from 1s; default 20s. Keep it below the publisher's timeout
	SendTimeout time.Duration `yaml:"send_timeout"`
	Encoder     publisher.Encoder
}

const (
	defaultSendTimeout = 20 * time.Second
	minSendTimeout     = time.Second
)

func (cfg *Config) fill() error {
	cfg.Name = cmp.Or(cfg.Name, "pubsub")
	cfg.SendTimeout = cmp.Or(cfg.SendTimeout, defaultSendTimeout)
	errs := []error{cfg.Encoder.Check()}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if cfg.Project == "" {
		wrong("project is missing: write pubsub://project/topic")
	}
	switch {
	case cfg.Topic == "":
		wrong("topic is missing: write pubsub://project/topic")
	case !regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._~+%-]{2,254}$`).MatchString(cfg.Topic):
		wrong("topic is %q: an id begins with a letter and has 3 to 255 letters, digits and any of - . _ ~ + %%", cfg.Topic)
	}
	if cfg.Endpoint != "" && cfg.Emulator != "" {
		wrong("endpoint is %q and emulator %q: name one of them", cfg.Endpoint, cfg.Emulator)
	}
	if cfg.SendTimeout < minSendTimeout {
		wrong("send_timeout is %s: it must be at least %s", cfg.SendTimeout, minSendTimeout)
	}
	return errors.Join(errs...)
}

// Kind is the kind "pubsub": pubsub://project/topic, or settings. Credentials come from the environment.
func Kind() publisher.Kind {
	return publisher.Kind{Name: "pubsub", Open: func(s publisher.Settings) (publisher.Sink, error) {
		var own Config
		if s.URL != nil {
			own.Project, own.Topic = s.URL.Host, strings.TrimPrefix(s.URL.Path, "/")
		}
		if err := setting.Read(s, &own); err != nil {
			return nil, err
		}
		own.Name, own.Encoder = s.Publisher, s.Encoder
		return New(own)
	}}
}

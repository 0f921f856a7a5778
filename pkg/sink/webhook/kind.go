package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/webhook"
)

// settings are what a configuration says.
type settings struct {
	URL           string            `yaml:"url"`
	Secrets       []string          `yaml:"secrets"`
	Unsigned      bool              `yaml:"unsigned"`
	Headers       map[string]string `yaml:"headers"`
	Concurrency   int               `yaml:"concurrency"`
	Timeout       time.Duration     `yaml:"timeout"`
	DialTimeout   time.Duration     `yaml:"dial_timeout"`
	HeaderTimeout time.Duration     `yaml:"header_timeout"`
	RetryAfterMax time.Duration     `yaml:"retry_after_max"`
	AllowNetworks []string          `yaml:"allow_networks"`
	Proxy         string            `yaml:"proxy"`
}

// Kind is the kind "webhook": https://example.com/events#whsec_…, or settings. What follows the # is
// never sent: secrets, with commas between them, or "unsigned".
func Kind() publisher.Kind {
	return publisher.Kind{
		Name: "webhook", Schemes: []string{"https", "http"},
		Open: func(s publisher.Settings) (publisher.Sink, error) {
			var given settings
			if s.URL != nil {
				given.take(*s.URL)
			}
			if err := s.Decode(&given); err != nil {
				return nil, err
			}
			cfg, err := given.config()
			cfg.Name, cfg.Encoder = s.Publisher, s.Encoder
			if err != nil {
				_, _, others := cfg.withDefaults().check()
				return nil, errors.Join(err, others)
			}
			return New(cfg)
		},
	}
}

// take reads the URL of the short form.
func (s *settings) take(u url.URL) {
	for part := range strings.SplitSeq(u.Fragment, ",") {
		switch part = strings.TrimSpace(part); part {
		case "":
		case "unsigned":
			s.Unsigned = true
		default:
			s.Secrets = append(s.Secrets, part)
		}
	}
	u.Fragment, u.RawFragment = "", ""
	s.URL = u.String()
}

func (s *settings) config() (Config, error) {
	cfg := Config{
		URL: s.URL, Unsigned: s.Unsigned, Headers: s.Headers, Concurrency: s.Concurrency, Timeout: s.Timeout,
		DialTimeout: s.DialTimeout, HeaderTimeout: s.HeaderTimeout,
		RetryAfterMax: s.RetryAfterMax, Proxy: s.Proxy,
	}
	var errs []error
	for i, text := range s.Secrets {
		secret, err := webhook.ParseSecret(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("secret %d: %w", i+1, err))
			secret = webhook.NewSecret() // in its place, while all else is checked
		}
		cfg.Secrets = append(cfg.Secrets, secret)
	}
	for _, text := range s.AllowNetworks {
		network, err := networkOf(text)
		if err != nil {
			errs = append(errs, err)
			network = netip.Prefix{}
		}
		cfg.AllowNetworks = append(cfg.AllowNetworks, network)
	}
	return cfg, errors.Join(errs...)
}

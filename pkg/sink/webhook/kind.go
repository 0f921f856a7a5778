package webhook

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/webhook"
)

// settings are what a configuration says.
type settings struct {
	Config        `yaml:",inline"`
	Secrets       []string `yaml:"secrets"`
	AllowNetworks []string `yaml:"allow_networks"`
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
			given.Name, given.Encoder = s.Publisher, s.Encoder
			if err := given.parse(); err != nil {
				_, _, others := given.withDefaults().check()
				return nil, errors.Join(err, others)
			}
			return New(given.Config)
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

// parse reads secrets and networks into the config.
func (s *settings) parse() error {
	var errs []error
	for i, text := range s.Secrets {
		secret, err := webhook.ParseSecret(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("secret %d: %w", i+1, err))
			secret = webhook.NewSecret() // in its place, while all else is checked
		}
		s.Config.Secrets = append(s.Config.Secrets, secret)
	}
	for _, text := range s.AllowNetworks {
		network, err := networkOf(text)
		if err != nil {
			errs = append(errs, err)
		}
		s.Config.AllowNetworks = append(s.Config.AllowNetworks, network)
	}
	return errors.Join(errs...)
}

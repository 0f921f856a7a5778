package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/webhook"
)

// Config configures a sink.
type Config struct {
	Name string // default "webhook"
	// required: http or https. User and password in it become an Authorization header
	URL         string            `yaml:"url"`
	Secrets     []webhook.Secret  `yaml:"-"`           // each signs; required unless Unsigned
	Unsigned    bool              `yaml:"unsigned"`    // send without a signature
	Headers     map[string]string `yaml:"headers"`     // sent with each request
	Concurrency int               `yaml:"concurrency"` // requests at once; default 8
	Timeout     time.Duration     `yaml:"timeout"`     // of a request as a whole; default 15 s
	// networks that may be dialled although they are not public
	AllowNetworks []netip.Prefix `yaml:"-"`
	// a proxy's URL, or "environment" for HTTPS_PROXY and the like; default none. Its address is checked
	Proxy   string `yaml:"proxy"`
	Encoder publisher.Encoder
}

const (
	defaultConcurrency = 8
	defaultTimeout     = 15 * time.Second

	proxyFromEnvironment = "environment"
)

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "webhook")
	c.Concurrency = cmp.Or(c.Concurrency, defaultConcurrency)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	return c
}

// check returns the URL and the proxy's URL, if any, or all mistakes.
func (c Config) check() (to, proxy *url.URL, err error) {
	errs := []error{c.Encoder.Check()}
	to, err = endpoint("url", c.URL)
	errs = append(errs, err)
	if to != nil && c.Proxy == "" {
		if addr, err := netip.ParseAddr(to.Hostname()); err == nil { // a resolved address is checked when it is dialled
			errs = append(errs, guard{c.AllowNetworks}.check(addr))
		}
	}
	if c.Proxy != "" && c.Proxy != proxyFromEnvironment {
		proxy, err = endpoint("proxy", c.Proxy)
		errs = append(errs, err)
	}
	switch {
	case c.Unsigned && len(c.Secrets) > 0:
		errs = append(errs, errors.New("both unsigned and secrets are set: leave one of them out"))
	case !c.Unsigned && len(c.Secrets) == 0:
		errs = append(errs,
			errors.New("there are no secrets to sign with: give secrets: [whsec_…], made e.g. with: echo whsec_$(openssl "+
				"rand -base64 32); or say unsigned: true; in a URL alone they stand behind a #, as "+
				"https://example.com/events#whsec_… or #unsigned"))
	}
	for i, s := range c.Secrets {
		if s.IsZero() {
			errs = append(errs, fmt.Errorf("secret %d is empty", i+1))
		}
	}
	if c.Concurrency < 1 || c.Concurrency > maxConcurrency {
		errs = append(errs, fmt.Errorf("concurrency is %d, it must be 1 to %d", c.Concurrency, maxConcurrency))
	}
	if c.Timeout < time.Millisecond {
		errs = append(errs, fmt.Errorf("timeout is %s, it must be at least 1ms", c.Timeout))
	}
	for name, value := range c.Headers {
		if why := unfit(name, value); why != "" {
			errs = append(errs, fmt.Errorf("header %q %s", name, why))
		}
	}
	return to, proxy, errors.Join(errs...)
}

const maxConcurrency = 1000

// endpoint parses a URL. Its errors do not repeat the URL, which may have a password or token.
func endpoint(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, fmt.Errorf("%s is missing: give one such as https://example.com/events", what)
	case err != nil:
		return nil, fmt.Errorf("%s is not a URL: give one such as https://example.com/events", what)
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, fmt.Errorf("%s begins with %q: give one such as https://example.com/events", what, u.Scheme+"://"+u.Host)
	}
	return u, nil
}

// unfit returns why a header cannot be set, or "".
func unfit(name, value string) string {
	switch strings.ToLower(name) {
	case "webhook-id", "webhook-timestamp", "webhook-signature", "content-type", "content-length",
		"transfer-encoding", "connection", "host", "expect", "upgrade", "trailer", "te":
		return "is the sink's own: leave it out"
	}
	token := func(r rune) bool { return r > '~' || r <= ' ' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) }
	if name == "" || strings.ContainsFunc(name, token) || http.CanonicalHeaderKey(name) == "" {
		return "has a name that no header can have"
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return "has a value with control characters"
	}
	return ""
}

type settings struct {
	Config        `yaml:",inline"`
	Secrets       []string `yaml:"secrets"`
	AllowNetworks []string `yaml:"allow_networks"`
}

// Kind is the kind "webhook": https://example.com/events#whsec_…, or settings. The part after # is
// never sent: secrets, separated by commas, or "unsigned".
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

func (s *settings) parse() error {
	var errs []error
	for i, text := range s.Secrets {
		secret, err := webhook.ParseSecret(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("secret %d: %w", i+1, err))
			secret = webhook.NewSecret() // a placeholder while the rest is checked
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

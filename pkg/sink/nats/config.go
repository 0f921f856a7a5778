package nats

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a sink.
type Config struct {
	Name     string      // default "nats"
	Servers  []string    `yaml:"servers"` // host:port, at least one; without a port 4222
	Subject  string      `yaml:"subject"` // required; {topic}, {type} and {campaign} stand for the event's
	Strict   bool        `yaml:"strict"`  // send an event only after the previous one of its campaign is stored
	User     string      `yaml:"user"`    // both user and password, or neither
	Password string      `yaml:"password"`
	Token    string      `yaml:"token"` // instead of user and password
	Creds    string      `yaml:"creds"` // instead of user and password: a file with a JWT and its seed
	TLS      *tls.Config // nil: as the server requires
	Encoder  publisher.Encoder
}

// connectTimeout limits the wait for a connection and for a stream's data.
const connectTimeout = 2 * time.Second

// options checks the configuration, fills in defaults, and returns the connection's options.
func (cfg *Config) options() ([]nats.Option, error) {
	cfg.Name = cmp.Or(cfg.Name, "nats")
	var err error
	cfg.Servers, err = setting.WithPorts("servers", cfg.Servers, "4222")
	errs := []error{err, cfg.Encoder.Check(), checkSubject(cfg.Subject)}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if (cfg.User == "") != (cfg.Password == "") {
		wrong("user is %q and user or password is missing: name both, or neither", cfg.User)
	}
	ways := []string{cfg.User, cfg.Token, cfg.Creds}
	if slice.Count(ways, func(way string) bool { return way != "" }) > 1 {
		wrong("user, token and creds exclude each other: name one of them")
	}
	if cfg.Creds != "" {
		if _, err := os.Stat(cfg.Creds); err != nil {
			wrong("creds: %w: name a file that this process may read", err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	options := []nats.Option{nats.Name("tidemark " + cfg.Name), nats.NoReconnect()}
	if cfg.User != "" {
		options = append(options, nats.UserInfo(cfg.User, cfg.Password))
	}
	if cfg.Token != "" {
		options = append(options, nats.Token(cfg.Token))
	}
	if cfg.Creds != "" {
		options = append(options, nats.UserCredentials(cfg.Creds))
	}
	if cfg.TLS != nil {
		options = append(options, nats.Secure(cfg.TLS))
	}
	return options, nil
}

// Kind is the kind "nats": nats://user:password@host:4222,host:4222/subject, with natss:// for TLS, or settings.
func Kind() publisher.Kind {
	return publisher.Kind{
		Name: "nats", Schemes: []string{"natss"},
		Open: func(s publisher.Settings) (publisher.Sink, error) {
			var own struct {
				Config      `yaml:",inline"`
				setting.TLS `yaml:",inline"`
			}
			if s.URL != nil {
				own.Servers, own.Subject = setting.Servers(s.URL), strings.TrimPrefix(s.URL.Path, "/")
				if password, ok := s.URL.User.Password(); ok {
					own.User, own.Password = s.URL.User.Username(), password
				} else {
					own.Token = s.URL.User.Username()
				}
			}
			var err error
			if own.Config.TLS, err = setting.ReadTLS(s, &own, &own.TLS, "natss"); err != nil {
				return nil, err
			}
			own.Name, own.Encoder = s.Publisher, s.Encoder
			return New(own.Config)
		},
	}
}

func (s *sink) subject(e *publisher.Event) string {
	if !strings.Contains(s.cfg.Subject, "{") {
		return s.cfg.Subject
	}
	return strings.NewReplacer("{topic}", token(e.Topic), "{type}", token(e.Type), "{campaign}",
		token(e.CampaignID)).Replace(s.cfg.Subject)
}

// subjects returns a pattern that matches the subjects of all events.
func (s *sink) subjects() string {
	parts := strings.Split(s.cfg.Subject, ".")
	for i, part := range parts {
		if strings.Contains(part, "{") {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, ".")
}

// token encodes a text as one token of a subject. Characters not allowed there become %2E and the like.
func token(text string) string {
	if text == "" {
		return "%"
	}
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c <= ' ' || c == 0x7f || strings.IndexByte(".*>%", c) >= 0:
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func checkSubject(subject string) error {
	if subject == "" {
		return errors.New("subject is missing: name it as nats://host:4222/subject, or under subject")
	}
	bare := strings.NewReplacer("{topic}", "t", "{type}", "t", "{campaign}", "t").Replace(subject)
	if strings.ContainsAny(bare, " \t\r\n*>{}") || strings.Contains("."+bare+".", "..") {
		return fmt.Errorf("subject is %q: it is words with dots between them, without spaces, * and >, and may hold "+
			"{topic}, {type} and {campaign}", subject)
	}
	return nil
}

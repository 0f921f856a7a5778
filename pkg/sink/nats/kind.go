package nats

import (
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Kind is the kind "nats": nats://user:password@host:4222,host:4222/subject, with natss:// for TLS, or settings.
func Kind() publisher.Kind {
	return publisher.Kind{
		Name: "nats", Schemes: []string{"natss"},
		Open: func(s publisher.Settings) (publisher.Sink, error) {
			var settings struct {
				Servers        []string      `yaml:"servers"`
				Subject        string        `yaml:"subject"`
				Stream         string        `yaml:"stream"`
				Strict         bool          `yaml:"strict"`
				User           string        `yaml:"user"`
				Password       string        `yaml:"password"`
				Token          string        `yaml:"token"`
				Creds          string        `yaml:"creds"`
				TLS            bool          `yaml:"tls"`
				CA             string        `yaml:"ca"`
				Cert           string        `yaml:"cert"`
				Key            string        `yaml:"key"`
				ServerName     string        `yaml:"server_name"`
				ConnectTimeout time.Duration `yaml:"connect_timeout"`
			}
			if s.URL != nil {
				if s.URL.Host != "" {
					settings.Servers = strings.Split(s.URL.Host, ",")
				}
				settings.Subject = strings.TrimPrefix(s.URL.Path, "/")
				if password, ok := s.URL.User.Password(); ok {
					settings.User, settings.Password = s.URL.User.Username(), password
				} else {
					settings.Token = s.URL.User.Username()
				}
				settings.TLS = s.URL.Scheme == "natss"
			}
			if err := setting.Read(s, &settings); err != nil {
				return nil, err
			}
			tls, err := setting.TLS{
				On: settings.TLS, CA: settings.CA, Cert: settings.Cert, Key: settings.Key,
				ServerName: settings.ServerName,
			}.Config()
			if err != nil {
				return nil, err
			}
			return New(Config{
				Name: s.Publisher, Servers: settings.Servers, Subject: settings.Subject, Stream: settings.Stream,
				Strict: settings.Strict, User: settings.User, Password: settings.Password,
				Token: settings.Token, Creds: settings.Creds, TLS: tls, ConnectTimeout: settings.ConnectTimeout, Encoder: s.Encoder,
			})
		},
	}
}

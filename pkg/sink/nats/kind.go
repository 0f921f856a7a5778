package nats

import (
	"strings"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

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
				own.On = s.URL.Scheme == "natss"
			}
			if err := setting.Read(s, &own); err != nil {
				return nil, err
			}
			var err error
			if own.Config.TLS, err = own.TLS.Config(); err != nil {
				return nil, err
			}
			own.Name, own.Encoder = s.Publisher, s.Encoder
			return New(own.Config)
		},
	}
}

package kafka

import (
	"cmp"
	"strings"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Kind is the kind "kafka": kafka://user:password@host:9092,host:9092/topic, with kafkas:// for TLS, or settings.
func Kind() publisher.Kind {
	return publisher.Kind{
		Name: "kafka", Schemes: []string{"kafkas"},
		Open: func(s publisher.Settings) (publisher.Sink, error) {
			var own struct {
				Config      `yaml:",inline"`
				setting.TLS `yaml:",inline"`
			}
			if s.URL != nil {
				own.Brokers, own.Topic = setting.Servers(s.URL), strings.TrimPrefix(s.URL.Path, "/")
				own.User = s.URL.User.Username()
				own.Password, _ = s.URL.User.Password()
				own.On = s.URL.Scheme == "kafkas"
			}
			if err := setting.Read(s, &own); err != nil {
				return nil, err
			}
			var err error
			if own.Config.TLS, err = own.TLS.Config(); err != nil {
				return nil, err
			}
			own.Name, own.Encoder = s.Publisher, s.Encoder
			own.Encoder.AttributePrefix = cmp.Or(s.Encoder.AttributePrefix, "ce_")
			return New(own.Config)
		},
	}
}

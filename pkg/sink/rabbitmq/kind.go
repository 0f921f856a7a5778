package rabbitmq

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Kind is the kind "rabbitmq": amqp://user:password@host:5672/vhost?exchange=events, with amqps:// for
// TLS, or settings.
func Kind() publisher.Kind {
	return publisher.Kind{
		Name: "rabbitmq", Schemes: []string{"amqp", "amqps"},
		Open: func(s publisher.Settings) (publisher.Sink, error) {
			var own struct {
				Config      `yaml:",inline"`
				setting.TLS `yaml:",inline"`
			}
			address := &url.URL{}
			if s.URL != nil {
				s.URL, address = divide(s.URL, func(name string) bool {
					return !slices.Contains([]string{"heartbeat", "connection_timeout", "channel_max", "auth_mechanism"}, name)
				})
			}
			if err := setting.Read(s, &own); err != nil {
				return nil, err
			}
			var err error
			if own.Config.TLS, err = own.TLS.Config(); err != nil {
				return nil, err
			}
			switch {
			case own.Config.TLS != nil && address.Host != "":
				address.Scheme = "amqps"
			case address.Scheme == "rabbitmq":
				address.Scheme = "amqp"
			}
			own.Name, own.URL, own.Encoder = s.Publisher, address.String(), s.Encoder
			own.Encoder.AttributePrefix = cmp.Or(s.Encoder.AttributePrefix, "cloudEvents_")
			return New(own.Config)
		},
	}
}

// divide answers a URL with the parameters that own selects, and the URL with the others: those are
// the client's.
func divide(u *url.URL, own func(name string) bool) (ours, rest *url.URL) {
	ownQuery, otherQuery := url.Values{}, url.Values{}
	for name, values := range u.Query() {
		if own(name) {
			ownQuery[name] = values
		} else {
			otherQuery[name] = values
		}
	}
	first, second := *u, *u
	first.RawQuery, second.RawQuery = ownQuery.Encode(), otherQuery.Encode()
	return &first, &second
}

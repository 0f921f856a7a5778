package rabbitmq

import (
	"net/url"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

type settings struct {
	Exchange        string `yaml:"exchange"`
	ExchangeType    string `yaml:"exchange_type"`
	RoutingKey      string `yaml:"routing_key"`
	AllowUnroutable bool   `yaml:"allow_unroutable"`
	Transient       bool   `yaml:"transient"`
	MaxMessageBytes int    `yaml:"max_message_bytes"`
	CA              string `yaml:"ca"`
	Cert            string `yaml:"cert"`
	Key             string `yaml:"key"`
	ServerName      string `yaml:"server_name"`
}

// Kind is the kind "rabbitmq": amqp://user:password@host:5672/vhost?exchange=events, with amqps:// for
// TLS, or settings.
func Kind() publisher.Kind {
	return publisher.Kind{
		Name: "rabbitmq", Schemes: []string{"amqp", "amqps"},
		Open: func(s publisher.Settings) (publisher.Sink, error) {
			var own settings
			address := url.URL{}
			if s.URL != nil {
				address = *s.URL
				s.URL, address.RawQuery = divide(s.URL)
			}
			if err := setting.Read(s, &own); err != nil {
				return nil, err
			}
			tls, err := setting.TLS{CA: own.CA, Cert: own.Cert, Key: own.Key, ServerName: own.ServerName}.Config()
			if err != nil {
				return nil, err
			}
			switch {
			case tls != nil && address.Host != "":
				address.Scheme = "amqps"
			case address.Scheme == "rabbitmq":
				address.Scheme = "amqp"
			}
			if s.Encoder.AttributePrefix == "" {
				s.Encoder.AttributePrefix = "cloudEvents_"
			}
			return New(Config{
				Name: s.Publisher, URL: address.String(), TLS: tls, Exchange: own.Exchange, ExchangeType: own.ExchangeType,
				RoutingKey:      own.RoutingKey,
				AllowUnroutable: own.AllowUnroutable, Transient: own.Transient, MaxMessageBytes: own.MaxMessageBytes,
				Encoder: s.Encoder,
			})
		},
	}
}

// divide answers the URL without the parameters that every AMQP client knows, and those.
func divide(address *url.URL) (own *url.URL, others string) {
	ownQuery, otherQuery := url.Values{}, url.Values{}
	for name, values := range address.Query() {
		switch name {
		case "heartbeat", "connection_timeout", "channel_max", "auth_mechanism":
			otherQuery[name] = values
		default:
			ownQuery[name] = values
		}
	}
	divided := *address
	divided.RawQuery = ownQuery.Encode()
	return &divided, otherQuery.Encode()
}

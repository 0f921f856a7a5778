package kafka

import (
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Kind is the kind "kafka": kafka://user:password@host:9092,host:9092/topic, with kafkas:// for TLS, or settings.
func Kind() publisher.Kind {
	return publisher.Kind{
		Name: "kafka", Schemes: []string{"kafkas"},
		Open: func(s publisher.Settings) (publisher.Sink, error) {
			var settings struct {
				Brokers         []string      `yaml:"brokers"`
				Topic           string        `yaml:"topic"`
				User            string        `yaml:"user"`
				Password        string        `yaml:"password"`
				SASL            string        `yaml:"sasl"`
				TLS             bool          `yaml:"tls"`
				CA              string        `yaml:"ca"`
				Cert            string        `yaml:"cert"`
				Key             string        `yaml:"key"`
				ServerName      string        `yaml:"server_name"`
				MaxMessageBytes int           `yaml:"max_message_bytes"`
				Linger          time.Duration `yaml:"linger"`
				Compression     string        `yaml:"compression"`
				CreateTopic     bool          `yaml:"create_topic"`
				ClientID        string        `yaml:"client_id"`
			}
			if s.URL != nil {
				if s.URL.Host != "" {
					settings.Brokers = strings.Split(s.URL.Host, ",")
				}
				settings.Topic = strings.TrimPrefix(s.URL.Path, "/")
				settings.User = s.URL.User.Username()
				settings.Password, _ = s.URL.User.Password()
				settings.TLS = s.URL.Scheme == "kafkas"
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
			if s.Encoder.AttributePrefix == "" {
				s.Encoder.AttributePrefix = "ce_"
			}
			return New(Config{
				Name: s.Publisher, Brokers: settings.Brokers, Topic: settings.Topic, User: settings.User,
				Password: settings.Password, SASL: settings.SASL, TLS: tls,
				MaxMessageBytes: settings.MaxMessageBytes, Linger: settings.Linger, Compression: settings.Compression,
				CreateTopic: settings.CreateTopic, ClientID: settings.ClientID,
				Encoder: s.Encoder,
			})
		},
	}
}

package rabbitmq

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a sink.
type Config struct {
	Name     string      // default "rabbitmq"
	URL      string      // required, amqp://user:password@host:5672/vhost, or amqps://
	TLS      *tls.Config // for amqps; nil: the system's authorities
	Exchange string      `yaml:"exchange"` // default "", the exchange that knows each queue by its name
	// "topic", "direct", "fanout", "headers": the exchange is declared, durable. Default: it must be there
	ExchangeType string `yaml:"exchange_type"`
	// default "{event_type}"; may hold {topic}, {event_type}, {campaign_id}, {aggregate_type}, {aggregate_id}
	RoutingKey string `yaml:"routing_key"`
	// an event that no queue is bound for is dropped by the broker, and counts as published
	AllowUnroutable bool `yaml:"allow_unroutable"`
	Transient       bool `yaml:"transient"` // the broker may forget messages when it restarts
	// of a body; larger events are refused without asking. Default 16 MiB, which RabbitMQ 4 takes
	MaxMessageBytes int `yaml:"max_message_bytes"`
	Encoder         publisher.Encoder
}

const defaultMaxMessageBytes = 16 << 20

// fill fills in what is left open, and checks the rest.
func (cfg *Config) fill() error {
	cfg.Name = cmp.Or(cfg.Name, "rabbitmq")
	cfg.RoutingKey = cmp.Or(cfg.RoutingKey, "{event_type}")
	cfg.MaxMessageBytes = cmp.Or(cfg.MaxMessageBytes, defaultMaxMessageBytes)
	errs := []error{cfg.Encoder.Check(), checkKey(cfg.RoutingKey)}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if cfg.URL == "" {
		wrong("url is missing: write amqp://user:password@host:5672/vhost")
	} else if _, err := amqp.ParseURI(cfg.URL); err != nil {
		wrong("url: %w: write amqp://user:password@host:5672/vhost", err)
	}
	if len(cfg.Exchange) > maxShort {
		wrong("exchange has %d bytes: it may have up to %d", len(cfg.Exchange), maxShort)
	}
	switch cfg.ExchangeType {
	case "", amqp.ExchangeTopic, amqp.ExchangeDirect, amqp.ExchangeFanout, amqp.ExchangeHeaders:
	default:
		wrong("exchange_type is %q: it must be topic, direct, fanout or headers, or left out where the exchange is there "+
			"already", cfg.ExchangeType)
	}
	if cfg.ExchangeType != "" && cfg.Exchange == "" {
		wrong("exchange_type is %q and exchange is missing: name the exchange to declare", cfg.ExchangeType)
	}
	if cfg.MaxMessageBytes < 1 {
		wrong("max_message_bytes is %d: it must be at least 1", cfg.MaxMessageBytes)
	}
	return errors.Join(errs...)
}

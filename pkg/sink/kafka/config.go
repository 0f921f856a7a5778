package kafka

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a sink.
type Config struct {
	Name     string      // default "kafka"
	Brokers  []string    `yaml:"brokers"` // host:port, at least one; without a port 9092
	Topic    string      `yaml:"topic"`   // required; all events go to it
	User     string      `yaml:"user"`    // both user and password, or neither
	Password string      `yaml:"password"`
	SASL     string      `yaml:"sasl"` // "plain" (the default), "scram-sha-256" or "scram-sha-512"
	TLS      *tls.Config // nil: none
	// of a batch, and so of an event; larger events are refused. Default 1,000,012, the brokers' own
	MaxMessageBytes int `yaml:"max_message_bytes"`
	Encoder         publisher.Encoder
}

const (
	defaultMaxMessageBytes = 1_000_012
	minMaxMessageBytes     = 1 << 10
	maxMaxMessageBytes     = math.MaxInt32 / 2
)

func topicNames() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`) }

// options checks the configuration, fills in defaults, and returns the client's options.
func (cfg *Config) options() ([]kgo.Opt, error) {
	cfg.Name = cmp.Or(cfg.Name, "kafka")
	cfg.MaxMessageBytes = cmp.Or(cfg.MaxMessageBytes, defaultMaxMessageBytes)
	brokers, err := setting.WithPorts("brokers", cfg.Brokers, "9092")
	mechanism, mechanismErr := cfg.mechanism()
	errs := []error{cfg.Encoder.Check(), err, mechanismErr}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case cfg.Topic == "":
		wrong("topic is missing: name it as kafka://host:9092/topic, or under topic")
	case !topicNames().MatchString(cfg.Topic) || cfg.Topic == "." || cfg.Topic == "..":
		wrong("topic is %q: a topic's name has up to 249 letters, digits, dots, underscores and hyphens", cfg.Topic)
	}
	if cfg.MaxMessageBytes < minMaxMessageBytes || cfg.MaxMessageBytes > maxMaxMessageBytes {
		wrong("max_message_bytes is %d: it must be from %d to %d", cfg.MaxMessageBytes, minMaxMessageBytes,
			maxMaxMessageBytes)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(brokers...), kgo.ClientID("tidemark"), kgo.DefaultProduceTopic(cfg.Topic),
		kgo.ProducerBatchMaxBytes(int32(cfg.MaxMessageBytes)),
		kgo.BrokerMaxWriteBytes(max(100<<20, int32(cfg.MaxMessageBytes)+1<<20)),
		kgo.ProducerLinger(time.Millisecond), // gathers the events of one Publish
		kgo.MetadataMinAge(metadataMinAge),
		// Records left by a Publish whose time is up must not be sent later: the relay sends them again.
		kgo.AllowIdempotentProduceCancellation(),
	}
	if cfg.TLS != nil {
		options = append(options, kgo.DialTLSConfig(cfg.TLS))
	}
	if mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options, kgo.ValidateOpts(options...)
}

// metadataMinAge is how soon the client looks up a partition's leader again.
const metadataMinAge = 250 * time.Millisecond

func (cfg *Config) mechanism() (sasl.Mechanism, error) {
	if cfg.User == "" && cfg.Password == "" {
		if cfg.SASL != "" {
			return nil, fmt.Errorf("sasl is %q and user is missing: name user and password, or leave sasl out", cfg.SASL)
		}
		return nil, nil
	}
	if cfg.User == "" || cfg.Password == "" {
		return nil, fmt.Errorf("user is %q and user or password is missing: name both, or neither", cfg.User)
	}
	switch cfg.SASL {
	case "", "plain":
		return plain.Auth{User: cfg.User, Pass: cfg.Password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: cfg.User, Pass: cfg.Password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: cfg.User, Pass: cfg.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("sasl is %q: it must be plain, scram-sha-256 or scram-sha-512", cfg.SASL)
}

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
			}
			var err error
			if own.Config.TLS, err = setting.ReadTLS(s, &own, &own.TLS, "kafkas"); err != nil {
				return nil, err
			}
			own.Name, own.Encoder = s.Publisher, s.Encoder
			own.Encoder.AttributePrefix = cmp.Or(s.Encoder.AttributePrefix, "ce_")
			return New(own.Config)
		},
	}
}

// connections keeps the last connection error: the client keeps trying, and reports only a timeout.
type connections struct{ last atomic.Pointer[error] }

// OnBrokerConnect implements a hook of the client.
func (c *connections) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	c.last.Store(&err)
}

func (c *connections) explain(err error) error {
	if last := c.last.Load(); last != nil && *last != nil {
		return fmt.Errorf("%w; connecting fails: %w", err, *last)
	}
	return err
}

// refuses reports whether the broker refuses an event itself, and will again.
func refuses(err error) bool {
	return isOneOf(err, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp)
}

// standing reports whether only an operator's change of the broker can help.
func standing(err error) bool {
	return isOneOf(err, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed,
		kerr.UnsupportedSaslMechanism, kerr.UnknownTopicOrPartition, kerr.InvalidRequiredAcks, kerr.InvalidTopicException)
}

func isOneOf(err error, known ...error) bool {
	return slices.ContainsFunc(known, func(one error) bool { return errors.Is(err, one) })
}

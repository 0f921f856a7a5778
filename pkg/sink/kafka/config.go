package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a sink.
type Config struct {
	Name           string      // default "kafka"
	Brokers        []string    // host:port, at least one; without a port 9092
	Topic          string      // required; all events go to it
	User, Password string      // credentials, both or neither
	SASL           string      // how they are shown: "plain" (the default), "scram-sha-256", "scram-sha-512"
	TLS            *tls.Config // nil: none
	// of a batch and thus of an event; larger events are refused. Default 1,000,012 as brokers have it
	MaxMessageBytes int
	// how long a partition's batch waits to be filled by other batches of events; default: it does not
	Linger      time.Duration
	Compression string // "snappy" (the default), "none", "gzip", "lz4", "zstd"
	CreateTopic bool   // let the broker create the topic if it does so
	ClientID    string // in the broker's logs and quotas; default "tidemark"
	Encoder     publisher.Encoder

	prompt bool // what one Publish brings is sent at once
}

const (
	defaultMaxMessageBytes = 1_000_012
	minMaxMessageBytes     = 1 << 10
	maxMaxMessageBytes     = math.MaxInt32 / 2
	maxLinger              = time.Minute
)

func topicNames() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`) }

// options checks the configuration, fills in what it leaves open, and answers what the client is to be started with.
func (cfg *Config) options() ([]kgo.Opt, error) {
	cfg.fill()
	errs := []error{cfg.Encoder.Check()}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(cfg.Brokers) == 0 {
		wrong("brokers are missing: name at least one as host:port")
	}
	for i, address := range cfg.Brokers {
		whole, ok := withPort(address)
		if !ok {
			wrong("brokers holds %q: write host:port", address)
		}
		cfg.Brokers[i] = whole
	}
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
	if cfg.Linger < 0 || cfg.Linger > maxLinger {
		wrong("linger is %s: it must be from 0 to %s", cfg.Linger, maxLinger)
	}
	codec, ok := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "snappy": kgo.SnappyCompression(), "gzip": kgo.GzipCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[cfg.Compression]
	if !ok {
		wrong("compression is %q: it must be none, snappy, gzip, lz4 or zstd", cfg.Compression)
	}
	mechanism, err := cfg.mechanism()
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...), kgo.ClientID(cfg.ClientID), kgo.DefaultProduceTopic(cfg.Topic),
		kgo.ProducerBatchMaxBytes(int32(cfg.MaxMessageBytes)),
		kgo.BrokerMaxWriteBytes(max(100<<20, int32(cfg.MaxMessageBytes)+1<<20)),
		kgo.ProducerLinger(cfg.Linger), kgo.ProducerBatchCompression(codec, kgo.NoCompression()),
		kgo.MetadataMinAge(metadataMinAge),
		// What a Publish whose time is up leaves behind must not be sent later: the relay sends it again.
		kgo.AllowIdempotentProduceCancellation(),
	}
	if cfg.TLS != nil {
		options = append(options, kgo.DialTLSConfig(cfg.TLS))
	}
	if mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	if cfg.CreateTopic {
		options = append(options, kgo.AllowAutoTopicCreation())
	}
	return options, kgo.ValidateOpts(options...)
}

// metadataMinAge is how soon the client looks again where a partition's leader is.
const metadataMinAge = 250 * time.Millisecond

func (cfg *Config) fill() {
	cfg.Brokers = slices.Clone(cfg.Brokers)
	if cfg.Name == "" {
		cfg.Name = "kafka"
	}
	if cfg.MaxMessageBytes == 0 {
		cfg.MaxMessageBytes = defaultMaxMessageBytes
	}
	if cfg.Linger == 0 {
		cfg.Linger, cfg.prompt = time.Millisecond, true // so that the events of one Publish go together
	}
	if cfg.Compression == "" {
		cfg.Compression = "snappy"
	}
	if cfg.ClientID == "" {
		cfg.ClientID = "tidemark"
	}
}

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

// withPort answers host:port.
func withPort(address string) (string, bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port, err = net.SplitHostPort(address + ":9092")
	}
	if n, convErr := strconv.ParseUint(port, 10, 16); err != nil || convErr != nil || n == 0 || host == "" {
		return address, false
	}
	return net.JoinHostPort(host, port), true
}

package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a sink.
type Config struct {
	Name            string   // default "redis"
	Servers         []string // host:port, at least one; without a port 6379. Several are nodes of one cluster
	Cluster         bool     // one server is a node of a cluster
	Database        int      // default 0, the only one that a cluster has
	User, Password  string
	TLS             *tls.Config // nil: none
	Stream          string      // default "tidemark:{topic}"; {topic}, {type} and {campaign} stand for the event's
	MaxLength       int         // entries of a stream to which Redis trims it, about; 0: all are kept
	MaxMessageBytes int         // of a body; what is larger is refused; default 16 MiB, up to 256 MiB
	ConnectTimeout  time.Duration
	// that must have a batch before it counts as published; default 0: Redis itself is enough
	MinReplicas    int
	ReplicaTimeout time.Duration // how long a batch waits for them; default 1s, up to 5s
	Encoder        publisher.Encoder
}

const (
	defaultStream          = "tidemark:{topic}"
	defaultMaxMessageBytes = 16 << 20
	mostMessageBytes       = 256 << 20 // half of what Redis takes as one string
	defaultConnectTimeout  = 2 * time.Second
	defaultReplicaTimeout  = time.Second
	mostReplicaTimeout     = 5 * time.Second
	// for what takes milliseconds; Publish and Healthy end earlier with their context
	answerTimeout = 10 * time.Second
)

// options checks the configuration, fills in what it leaves open, and answers what to connect with.
func (cfg *Config) options() (*redis.UniversalOptions, error) {
	cfg.Servers = slices.Clone(cfg.Servers)
	if cfg.Name == "" {
		cfg.Name = "redis"
	}
	if cfg.Stream == "" {
		cfg.Stream = defaultStream
	}
	if cfg.MaxMessageBytes == 0 {
		cfg.MaxMessageBytes = defaultMaxMessageBytes
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = defaultConnectTimeout
	}
	if cfg.ReplicaTimeout == 0 {
		cfg.ReplicaTimeout = defaultReplicaTimeout
	}
	cfg.Cluster = cfg.Cluster || len(cfg.Servers) > 1
	errs := []error{cfg.Encoder.Check(), checkStream(cfg.Stream)}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(cfg.Servers) == 0 {
		wrong("servers are missing: name one as host:port")
	}
	for i, address := range cfg.Servers {
		whole, ok := withPort(address)
		if !ok {
			wrong("servers holds %q: write host:port", address)
		}
		cfg.Servers[i] = whole
	}
	if cfg.Database < 0 || cfg.Cluster && cfg.Database != 0 {
		wrong("database is %d: it is 0 or more, and 0 in a cluster", cfg.Database)
	}
	if cfg.User != "" && cfg.Password == "" {
		wrong("user is %q and password is missing: name both, or the password alone", cfg.User)
	}
	if cfg.MaxLength < 0 {
		wrong("max_length is %d: it must not be negative", cfg.MaxLength)
	}
	if cfg.MaxMessageBytes < 1 || cfg.MaxMessageBytes > mostMessageBytes {
		wrong("max_message_bytes is %d: it must be from 1 to %d", cfg.MaxMessageBytes, mostMessageBytes)
	}
	if cfg.ConnectTimeout < 0 || cfg.ConnectTimeout > time.Minute {
		wrong("connect_timeout is %s: it must be from 0 to 1m0s", cfg.ConnectTimeout)
	}
	if cfg.MinReplicas < 0 {
		wrong("min_replicas is %d: it must not be negative", cfg.MinReplicas)
	}
	if cfg.ReplicaTimeout < time.Millisecond || cfg.ReplicaTimeout > mostReplicaTimeout {
		wrong("replica_timeout is %s: it must be from 1ms to %s", cfg.ReplicaTimeout, mostReplicaTimeout)
	}
	return &redis.UniversalOptions{
		Addrs: cfg.Servers, IsClusterMode: cfg.Cluster, DB: cfg.Database, Username: cfg.User, Password: cfg.Password,
		TLSConfig:             cfg.TLS,
		ContextTimeoutEnabled: true, DialTimeout: cfg.ConnectTimeout, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout,
		MaxRetries: -1, DialerRetries: 1, // the relay tries again
		PipelinePoolSize: -1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, errors.Join(errs...)
}

// withPort answers host:port.
func withPort(address string) (string, bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port, err = net.SplitHostPort(address + ":6379")
	}
	if n, convErr := strconv.ParseUint(port, 10, 16); err != nil || convErr != nil || n == 0 || host == "" {
		return address, false
	}
	return net.JoinHostPort(host, port), true
}

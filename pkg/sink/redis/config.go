package redis

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a sink.
type Config struct {
	Name string // default "redis"
	// host:port, at least one; without a port 6379. Several are nodes of one cluster
	Servers  []string `yaml:"servers"`
	Cluster  bool     `yaml:"cluster"`  // one server is a node of a cluster
	Database int      `yaml:"database"` // default 0, the only one that a cluster has
	// default "tidemark:{topic}"; {topic}, {type} and {campaign} stand for the event's
	Stream string `yaml:"stream"`
	// entries of a stream to which Redis trims it, about; 0: all are kept
	MaxLength int `yaml:"max_length"`
	// of a body; larger ones are refused; default 16 MiB, up to 256 MiB
	MaxMessageBytes int           `yaml:"max_message_bytes"`
	User            string        `yaml:"user"`
	Password        string        `yaml:"password"`
	TLS             *tls.Config   // nil: none
	ConnectTimeout  time.Duration `yaml:"connect_timeout"`
	// that must have a batch before it counts as published; default 0: Redis itself is enough
	MinReplicas    int           `yaml:"min_replicas"`
	ReplicaTimeout time.Duration `yaml:"replica_timeout"` // how long a batch waits for them; default 1s, up to 5s
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
	cfg.Name = cmp.Or(cfg.Name, "redis")
	cfg.Stream = cmp.Or(cfg.Stream, defaultStream)
	cfg.MaxMessageBytes = cmp.Or(cfg.MaxMessageBytes, defaultMaxMessageBytes)
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, defaultConnectTimeout)
	cfg.ReplicaTimeout = cmp.Or(cfg.ReplicaTimeout, defaultReplicaTimeout)
	cfg.Cluster = cfg.Cluster || len(cfg.Servers) > 1
	servers, err := setting.WithPorts("servers", cfg.Servers, "6379")
	errs := []error{err, cfg.Encoder.Check(), checkStream(cfg.Stream)}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
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
		Addrs: servers, IsClusterMode: cfg.Cluster, DB: cfg.Database, Username: cfg.User, Password: cfg.Password,
		TLSConfig:             cfg.TLS,
		ContextTimeoutEnabled: true, DialTimeout: cfg.ConnectTimeout, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout,
		MaxRetries: -1, DialerRetries: 1, // the relay tries again
		PipelinePoolSize: -1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, errors.Join(errs...)
}

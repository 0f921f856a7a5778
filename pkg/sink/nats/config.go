package nats

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a sink.
type Config struct {
	Name           string      // default "nats"
	Servers        []string    // host:port, at least one; without a port 4222
	Subject        string      // required; {topic}, {type} and {campaign} stand for the event's
	Stream         string      // the stream that must store it; default any
	Strict         bool        // send an event when the one before it in its campaign is stored
	User, Password string      // credentials, both or neither
	Token          string      // instead of them
	Creds          string      // instead of them, a file with a JWT and its seed
	TLS            *tls.Config // nil: as the server wants it
	ConnectTimeout time.Duration
	Encoder        publisher.Encoder
}

const defaultConnectTimeout = 2 * time.Second

// options checks the configuration, fills in what it leaves open, and answers what to connect with.
func (cfg *Config) options() ([]nats.Option, error) {
	cfg.Servers = slices.Clone(cfg.Servers)
	if cfg.Name == "" {
		cfg.Name = "nats"
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = defaultConnectTimeout
	}
	errs := []error{cfg.Encoder.Check(), checkSubject(cfg.Subject)}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(cfg.Servers) == 0 {
		wrong("servers are missing: name at least one as host:port")
	}
	for i, address := range cfg.Servers {
		whole, ok := withPort(address)
		if !ok {
			wrong("servers holds %q: write host:port", address)
		}
		cfg.Servers[i] = "nats://" + whole
	}
	if cfg.ConnectTimeout < 0 || cfg.ConnectTimeout > time.Minute {
		wrong("connect_timeout is %s: it must be from 0 to 1m0s", cfg.ConnectTimeout)
	}
	if (cfg.User == "") != (cfg.Password == "") {
		wrong("user is %q and user or password is missing: name both, or neither", cfg.User)
	}
	ways := 0
	for _, way := range []string{cfg.User, cfg.Token, cfg.Creds} {
		if way != "" {
			ways++
		}
	}
	if ways > 1 {
		wrong("user, token and creds exclude each other: name one of them")
	}
	if cfg.Creds != "" {
		if _, err := os.Stat(cfg.Creds); err != nil {
			wrong("creds: %w: name a file that this process may read", err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	options := []nats.Option{nats.Name("tidemark " + cfg.Name), nats.NoReconnect()}
	if cfg.User != "" {
		options = append(options, nats.UserInfo(cfg.User, cfg.Password))
	}
	if cfg.Token != "" {
		options = append(options, nats.Token(cfg.Token))
	}
	if cfg.Creds != "" {
		options = append(options, nats.UserCredentials(cfg.Creds))
	}
	if cfg.TLS != nil {
		options = append(options, nats.Secure(cfg.TLS))
	}
	return options, nil
}

// withPort answers host:port.
func withPort(address string) (string, bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port, err = net.SplitHostPort(address + ":4222")
	}
	if n, convErr := strconv.ParseUint(port, 10, 16); err != nil || convErr != nil || n == 0 || host == "" {
		return address, false
	}
	return net.JoinHostPort(host, port), true
}

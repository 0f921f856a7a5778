package webhook

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

type sink struct {
	cfg       Config
	to        *url.URL
	transport *http.Transport
	slots     chan struct{} // one for each current request

	gate   delivery.Gate
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

const (
	dialTimeout = 5 * time.Second // of a connection, and then of its TLS handshake
	headerBytes = 64 << 10        // of a response's headers
	answerBytes = 64 << 10        // of a response's body, read so that the connection can be reused
	answerTime  = time.Second
	idleTime    = time.Minute
)

// New checks the configuration. It does not connect.
func New(cfg Config) (publisher.Sink, error) {
	cfg = cfg.withDefaults()
	to, proxy, err := cfg.check()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, Control: guard{cfg.AllowNetworks}.control}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: headerBytes,
		MaxConnsPerHost:        cfg.Concurrency,
		MaxIdleConnsPerHost:    cfg.Concurrency,
		IdleConnTimeout:        idleTime,
		DisableCompression:     true, // responses need no compression, and a small one must not expand into a big one
		Protocols:              new(http.Protocols),
	}
	transport.Protocols.SetHTTP1(true) // one request a connection at a time: a stalled request stalls no other
	switch {
	case proxy != nil:
		transport.Proxy = http.ProxyURL(proxy)
	case cfg.Proxy == proxyFromEnvironment:
		transport.Proxy = http.ProxyFromEnvironment
	}
	s := &sink{cfg: cfg, to: to, transport: transport, slots: make(chan struct{}, cfg.Concurrency)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

func (s *sink) Name() string { return s.cfg.Name }

func (s *sink) Publish(ctx context.Context, events []publisher.Event) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(s.ctx, func() { cancel(publisher.ErrClosed) })
	defer stop()
	return s.send(ctx, events)
}

// Close cancels current requests and waits for them.
func (s *sink) Close() error {
	s.cancel()
	s.gate.Close()
	s.transport.CloseIdleConnections()
	return nil
}

func (s *sink) slot(ctx context.Context) (release func(), err error) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

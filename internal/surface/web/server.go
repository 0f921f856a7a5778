package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/internal/surface/api"
	"github.com/tidemark-go/tidemark/internal/surface/pages"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/waiter"
)

// Config configures [New].
type Config struct {
	Addr     string        // required, host:port
	Listener net.Listener  // at Addr, [Server.Run] closes it; nil: New listens
	Pool     *pgxpool.Pool // required, see [NewPool]; the caller closes it
	Acts     *admin.Acts   // required
	Auth     auth.Config   // default of its Pool: Pool. A separate one lets people log in while pages keep Pool busy
	Payloads payload.Rule
	TLS      *tls.Config     // nil: plain HTTP
	Logger   *slog.Logger    // default: discard
	Settings []pages.Setting // shown on a page

	Projections []projection.Projection // code of this process, with which pages show earlier states
	Catalogue   *catalogue.Catalogue    // of the projections' events
	Version     string

	StreamInterval time.Duration // between polls for event streams; default 1s
	MaxStreams     int           // maximum number of event streams; default 1,000
	MaxStreamsEach int           // of one token or name; default 50
}

// Server is the admin listener.
type Server struct {
	cfg      Config
	auth     *auth.Authenticator
	hub      *hub
	pages    *pages.Pages
	calls    *api.API
	waiter   *waiter.Waiter
	handler  http.Handler
	listener net.Listener
}

// New checks the configuration and listens, unless it is given a listener. [Server.Run] serves.
func New(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Pool == nil || cfg.Acts == nil {
		return nil, errors.New("admin listener: Pool and Acts are needed")
	}
	cfg.Logger = redact.Logger(cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)))
	cfg.StreamInterval = cmp.Or(cfg.StreamInterval, time.Second)
	cfg.MaxStreams = cmp.Or(cfg.MaxStreams, 1000)
	cfg.MaxStreamsEach = cmp.Or(cfg.MaxStreamsEach, 50)
	cfg.Auth.Pool = cmp.Or(cfg.Auth.Pool, cfg.Pool)
	s := &Server{cfg: cfg}
	var err error
	if s.auth, err = auth.New(cfg.Auth); err != nil {
		return nil, err
	}
	if err := s.checkAddr(ctx); err != nil {
		return nil, err
	}
	s.hub = newHub(cfg, s.auth.Holding, s.poll)
	if s.handler, err = s.routes(); err != nil {
		return nil, err
	}
	if s.listener = cfg.Listener; s.listener == nil {
		if s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Addr); err != nil {
			return nil, fmt.Errorf("admin listener: %w", err)
		}
	}
	if cfg.TLS != nil {
		s.listener = tls.NewListener(s.listener, cfg.TLS)
	}
	return s, nil
}

// Addr returns the listener's address.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// checkAddr refuses an address that is not loopback if clients need no credentials or no credentials
// exist.
func (s *Server) checkAddr(ctx context.Context) error {
	host, _, err := net.SplitHostPort(s.cfg.Addr)
	if err != nil {
		return fmt.Errorf("admin listener: TIDEMARK_ADMIN_ADDR %q: write it as host:port: %w", s.cfg.Addr, err)
	}
	addr, err := netip.ParseAddr(host)
	if host == "localhost" || err == nil && addr.IsLoopback() {
		return nil
	}
	if s.cfg.Auth.Anonymous > auth.Nobody {
		return fmt.Errorf("admin listener: TIDEMARK_ADMIN_ADDR %q is not loopback and TIDEMARK_ADMIN_ANONYMOUS gives "+
			"every client the role %s: use 127.0.0.1, or credentials", s.cfg.Addr, s.cfg.Auth.Anonymous)
	}
	configured, err := s.auth.Configured(ctx)
	if err != nil {
		return fmt.Errorf("admin listener: %w", err)
	}
	if !configured {
		return fmt.Errorf("admin listener: TIDEMARK_ADMIN_ADDR %q is not loopback, and there is neither a token nor a "+
			"trusted proxy: make a token first (tidemark token create), or set TIDEMARK_ADMIN_PROXIES, or use "+
			"127.0.0.1", s.cfg.Addr)
	}
	return nil
}

// routes returns the complete handler. The outermost wrapper sees a request first.
func (s *Server) routes() (http.Handler, error) {
	fail := failed(s.cfg.Logger)
	var err error
	s.pages, err = pages.New(pages.Config{
		Pool: s.cfg.Pool, Acts: s.cfg.Acts, Logger: s.cfg.Logger, Payloads: s.cfg.Payloads, Settings: s.cfg.Settings,
		Version:     s.cfg.Version,
		Projections: s.cfg.Projections, Catalogue: s.cfg.Catalogue, Secure: s.auth.Secure,
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	login := bounded(s.auth.Login(fail))
	mux.Handle("GET /login", login)
	mux.Handle("POST /login", login)
	mux.Handle("POST /logout", bounded(s.auth.Logout(fail)))
	mux.Handle("GET /static/", bounded(s.pages))
	mux.Handle("GET /events", s.auth.Require(auth.Viewer, fail, s.hub))
	share := newQuota(int(s.cfg.Pool.Config().MaxConns)).share
	mux.Handle("/", s.auth.Require(auth.Viewer, fail, bounded(share(s.pages))))
	s.waiter = waiter.New(s.cfg.Pool, s.cfg.Logger)
	s.calls, err = api.New(api.Config{
		Pool: s.cfg.Pool, Acts: s.cfg.Acts, Logger: s.cfg.Logger, Waiter: s.waiter, Payloads: s.cfg.Payloads,
		Stream: s.hub.stream, Failed: fail,
	})
	if err != nil {
		return nil, err
	}
	for _, route := range s.calls.Routes() {
		handler := route.Handler
		if !route.Streams {
			handler = bounded(s.calls.Await(route, share(handler)))
		}
		mux.Handle(route.Method+" "+route.Pattern, s.auth.Require(route.Role, fail, handler))
	}
	mux.Handle("/api/", s.auth.Require(auth.Viewer, fail, bounded(s.calls.Unknown())))
	guarded := sameOrigin(mux)
	if s.cfg.Auth.Anonymous > auth.Nobody {
		guarded = localHost(guarded)
	}
	return headers(logged(s.cfg.Logger, guarded)), nil
}

// Run serves until ctx ends, then closes the listener.
func (s *Server) Run(ctx context.Context) error {
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: requestTimeout + 10*time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 32 << 10, ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.hub.Run(ctx) })
	g.Go(func() error { return s.pages.Run(ctx) })
	g.Go(func() error { return s.waiter.Run(ctx) })
	g.Go(func() error { return s.calls.Run(ctx) })
	g.Go(func() error {
		if err := server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("admin listener: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if server.Shutdown(bounded) != nil {
			_ = server.Close()
		}
		return nil
	})
	return g.Wait()
}

// NewPool opens the admin listener's own small pool, so that no page takes a connection from a
// worker. timeout limits each statement. before runs before each connection, unless it is nil.
func NewPool(
	ctx context.Context, url string, connections int, timeout time.Duration,
	before func(context.Context, *pgx.ConnConfig) error,
) (*pgxpool.Pool, error) {
	cfg, err := session.Parse(url)
	if err != nil {
		return nil, fmt.Errorf("database URL of the admin listener: %w", err)
	}
	session.Before(cfg, before)
	cfg.MaxConns, cfg.MinConns = int32(min(connections, 100)), 0
	cfg.MaxConnIdleTime = time.Minute
	params := cfg.ConnConfig.RuntimeParams
	params["application_name"] = "tidemark-admin"
	session.Direct(cfg.ConnConfig)
	params["statement_timeout"] = milliseconds(timeout)
	params["jit"] = "off" // pages read a few rows: compilation takes longer than the query
	params["lock_timeout"] = milliseconds(min(timeout, 2*time.Second))
	params["idle_in_transaction_session_timeout"] = milliseconds(2 * timeout)
	session.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("database of the admin listener: %w", err)
	}
	return pool, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }

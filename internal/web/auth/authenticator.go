package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/web/problem"
)

// Config says how requests are known.
type Config struct {
	Pool *pgxpool.Pool // required

	// Anonymous is the role of requests without credentials. Default [Nobody].
	Anonymous Role

	// Proxies are the networks whose headers are believed. Default none.
	Proxies    []netip.Prefix
	UserHeader string // who; default "X-Forwarded-User"
	RoleHeader string // viewer, operator or admin, where it is not there viewer; default "X-Forwarded-Role"

	SessionTTL time.Duration    // how long a browser stays logged in; default 12h
	Now        func() time.Time // for the limit of wrong credentials; default time.Now
}

// Authenticator finds out who sends a request.
type Authenticator struct {
	cfg    Config
	limits *limiter
}

// New checks the configuration.
func New(cfg Config) (*Authenticator, error) {
	if cfg.Pool == nil {
		return nil, errors.New("auth: Pool is missing")
	}
	for header, standard := range map[*string]string{&cfg.UserHeader: "X-Forwarded-User", &cfg.RoleHeader: "X-Forwarded-Role"} {
		if *header == "" {
			*header = standard
		}
	}
	if cfg.SessionTTL == 0 {
		cfg.SessionTTL = 12 * time.Hour
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Authenticator{cfg: cfg, limits: newLimiter(cfg.Now)}, nil
}

// Configured says whether anybody could be known: there is a token that holds, or a proxy that is trusted.
func (a *Authenticator) Configured(ctx context.Context) (bool, error) {
	if len(a.cfg.Proxies) > 0 {
		return true, nil
	}
	var found bool
	if err := a.cfg.Pool.QueryRow(ctx, queryAny).Scan(&found); err != nil {
		return false, fmt.Errorf("look for tokens: %w", err)
	}
	return found, nil
}

// errUnknown is a credential that nobody has.
var errUnknown = errors.New("unknown credentials")

// identify answers who sends a request; nobody where it does not say. Errors are *problem.Problem and those of the database.
func (a *Authenticator) identify(w http.ResponseWriter, r *http.Request) (Identity, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		return a.checked(r, header, func() (Identity, error) { return a.authorization(r.Context(), header) })
	}
	if id, ok, err := a.proxied(r); ok || err != nil {
		return id, err
	}
	if cookie, err := r.Cookie(a.cookieName(r)); err == nil && cookie.Value != "" {
		id, err := a.checked(r, cookie.Value, func() (Identity, error) { return a.session(r.Context(), cookie.Value) })
		var refused *problem.Problem
		if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
			return id, err
		}
		a.clearCookie(w, r) // the session is over: as if there were none
	}
	if a.cfg.Anonymous > Nobody {
		return Identity{Name: "anonymous", Role: a.cfg.Anonymous, Via: "anonymous"}, nil
	}
	return Identity{}, nil
}

// checked looks at credentials, unless the address has sent too many that were wrong.
func (a *Authenticator) checked(r *http.Request, secret string, look func() (Identity, error)) (Identity, error) {
	addr := a.client(r)
	if wait := a.limits.wait(addr, secret); wait > 0 {
		return Identity{}, tooMany(addr, wait)
	}
	id, err := look()
	if errors.Is(err, errUnknown) {
		a.limits.wrong(addr)
		return Identity{}, problem.New(http.StatusUnauthorized, "the credentials are wrong, have expired or were revoked", "ask whoever runs the worker for a token: maintenance token create")
	}
	if err == nil {
		a.limits.known(secret)
	}
	return id, err
}

// authorization reads the header of that name.
func (a *Authenticator) authorization(ctx context.Context, header string) (Identity, error) {
	scheme, rest, _ := strings.Cut(header, " ")
	switch strings.ToLower(scheme) {
	case "bearer":
		return a.token(ctx, strings.TrimSpace(rest), "")
	case "basic":
		if user, password, ok := (&http.Request{Header: http.Header{"Authorization": {header}}}).BasicAuth(); ok && user != "" {
			return a.token(ctx, password, user)
		}
	}
	return Identity{}, errUnknown
}

// token finds whose token it is. With a name, it must be that one's.
func (a *Authenticator) token(ctx context.Context, token, name string) (Identity, error) {
	id, _, err := a.lookup(ctx, token, name)
	return id, err
}

func (a *Authenticator) lookup(ctx context.Context, token, name string) (Identity, int64, error) {
	if !strings.HasPrefix(token, tokenPrefix) {
		return Identity{}, 0, errUnknown
	}
	var key int64
	var found, role string
	var stale bool
	err := a.cfg.Pool.QueryRow(ctx, queryToken, hash(token)).Scan(&key, &found, &role, &stale)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && name != "" && name != found:
		return Identity{}, 0, errUnknown
	case err != nil:
		return Identity{}, 0, fmt.Errorf("look for a token: %w", err)
	}
	if stale {
		if _, err := a.cfg.Pool.Exec(ctx, queryUsed, key); err != nil {
			return Identity{}, 0, fmt.Errorf("write down a token's use: %w", err)
		}
	}
	parsed, err := ParseRole(role)
	return Identity{Name: found, Role: parsed, Via: "token"}, key, err
}

func (a *Authenticator) session(ctx context.Context, cookie string) (Identity, error) {
	var name, role string
	err := a.cfg.Pool.QueryRow(ctx, querySession, hash(cookie)).Scan(&name, &role)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Identity{}, errUnknown
	case err != nil:
		return Identity{}, fmt.Errorf("look for a session: %w", err)
	}
	parsed, err := ParseRole(role)
	return Identity{Name: name, Role: parsed, Via: "session"}, err
}

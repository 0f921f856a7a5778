package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// Config says how requests are known.
type Config struct {
	Pool *pgxpool.Pool // required

	// Anonymous is the role of requests without credentials. Default [Nobody].
	Anonymous Role

	// Forwarders are the networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.
	// They say where a request comes from, and never who sends it. Default none.
	Forwarders []netip.Prefix

	// Proxies are the networks of proxies that say who sends a request. Default none.
	Proxies    []netip.Prefix
	UserHeader string // who; default "X-Forwarded-User"
	RoleHeader string // viewer, operator or admin, and viewer without it. It needs Secret. Default none: all are viewers
	Secret     string // that a proxy sends in the header X-Tidemark-Proxy-Secret. Default none: its address is enough

	JWT JWT

	SessionTTL time.Duration    // how long a browser stays logged in; default 12h
	Now        func() time.Time // for the limit of wrong credentials; default time.Now
}

// Authenticator finds out who sends a request.
type Authenticator struct {
	cfg    Config
	limits *limiter
	jwts   *jwts // nil: none are believed
	valid  valid
}

// New checks the configuration.
func New(cfg Config) (*Authenticator, error) {
	if cfg.Pool == nil {
		return nil, errors.New("auth: Pool is missing")
	}
	cfg.UserHeader = cmp.Or(cfg.UserHeader, "X-Forwarded-User")
	cfg.SessionTTL = cmp.Or(cfg.SessionTTL, 12*time.Hour)
	if cfg.RoleHeader != "" && len(cfg.Secret) < secretLeast {
		return nil, fmt.Errorf(
			"the proxy's role header %s needs a shared secret of at least %d characters: set TIDEMARK_ADMIN_PROXY_SECRET",
			cfg.RoleHeader,
			secretLeast,
		)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &Authenticator{cfg: cfg, limits: newLimiter(cfg.Now)}
	var err error
	if cfg.JWT.Issuer != "" || cfg.JWT.Audience != "" {
		a.jwts, err = newJWTs(cfg.JWT)
	}
	return a, err
}

// Configured says whether anybody could be known: there is a token that holds, a proxy that is
// trusted, or an issuer of JWTs.
func (a *Authenticator) Configured(ctx context.Context) (bool, error) {
	if len(a.cfg.Proxies) > 0 || a.jwts != nil {
		return true, nil
	}
	var found bool
	if err := a.cfg.Pool.QueryRow(ctx, queryAny).Scan(&found); err != nil {
		return false, fmt.Errorf("look for tokens: %w", err)
	}
	return found, nil
}

// errUnknown is an unknown credential.
var errUnknown = errors.New("unknown credentials")

// identify answers who sends a request; the zero identity where it does not say. Errors are *problem.Problem
// and those of the database.
func (a *Authenticator) identify(w http.ResponseWriter, r *http.Request) (Identity, error) {
	if raw, ok := a.jwts.of(r); ok {
		return a.checked(r, "", func() (Identity, error) { return a.jwts.identity(r.Context(), raw) })
	}
	if header := r.Header.Get("Authorization"); header != "" {
		_, secret := credentials(header)
		return a.checked(r, secret, func() (Identity, error) { return a.authorization(r.Context(), header) })
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
	if a.cfg.Anonymous > Nobody && peer(r).IsLoopback() && !forwarded(r) {
		return Identity{Name: "anonymous", Role: a.cfg.Anonymous, Via: "anonymous"}, nil
	}
	return Identity{}, nil
}

// checked looks at credentials. Where the address has sent too many that were wrong, a secret that
// no token or session has costs no look any more; "" is one that costs none anyway.
func (a *Authenticator) checked(r *http.Request, secret string, look func() (Identity, error)) (Identity, error) {
	addr := a.client(r)
	wait := a.limits.wait(addr)
	if wait > 0 && secret != "" && !a.valid.has(r.Context(), a.cfg.Pool, secret) {
		return Identity{}, tooMany(addr, wait)
	}
	id, err := look()
	if !errors.Is(err, errUnknown) {
		return id, err
	}
	if wait > 0 {
		return Identity{}, tooMany(addr, wait)
	}
	a.limits.wrong(addr)
	return Identity{}, problem.New(
		http.StatusUnauthorized,
		"the credentials are wrong, have expired or were revoked",
		"ask the people who run the worker for a token: tidemark token create",
	)
}

// credentials are the user, if any, and the token in the header Authorization.
func credentials(header string) (user, token string) {
	scheme, rest, _ := strings.Cut(header, " ")
	switch strings.ToLower(scheme) {
	case "bearer":
		return "", strings.TrimSpace(rest)
	case "basic":
		r := &http.Request{Header: http.Header{"Authorization": {header}}}
		if user, password, ok := r.BasicAuth(); ok && user != "" {
			return user, password
		}
	}
	return "", header
}

func (a *Authenticator) authorization(ctx context.Context, header string) (Identity, error) {
	user, token := credentials(header)
	return a.token(ctx, token, user)
}

// token finds whose token it is. With a name, it must be that one's.
func (a *Authenticator) token(ctx context.Context, token, name string) (Identity, error) {
	if !strings.HasPrefix(token, tokenPrefix) {
		return Identity{}, errUnknown
	}
	id, err := a.find(ctx, queryToken, token)
	if err == nil && name != "" && name != id.Name {
		return Identity{}, errUnknown
	}
	id.Via = "token"
	return id, err
}

func (a *Authenticator) session(ctx context.Context, cookie string) (Identity, error) {
	id, err := a.find(ctx, querySession, cookie)
	id.Via = "session"
	return id, err
}

// find answers whose token or session a secret is.
func (a *Authenticator) find(ctx context.Context, query, secret string) (Identity, error) {
	id := Identity{secret: sha256.Sum256([]byte(secret))}
	var role string
	err := a.cfg.Pool.QueryRow(ctx, query, id.secret[:]).Scan(&id.TokenID, &id.Name, &role)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Identity{}, errUnknown
	case err != nil:
		return Identity{}, fmt.Errorf("look for a token or a session: %w", err)
	}
	id.Role, err = ParseRole(role)
	return id, err
}

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

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// Config configures [New].
type Config struct {
	Pool *pgxpool.Pool // required

	// Anonymous is the role of requests without credentials. Default [Nobody].
	Anonymous Role

	// Forwarders are the networks of proxies whose X-Forwarded-For and X-Forwarded-Proto headers are
	// trusted. The headers give the client's address, never its identity. Default none.
	Forwarders []netip.Prefix

	// Proxies are the networks of proxies whose user and role headers are trusted. Default none.
	Proxies    []netip.Prefix
	UserHeader string // the user's name; default "X-Forwarded-User"
	RoleHeader string // viewer, operator or admin; if missing, viewer. Needs Secret. Default none: all are viewers
	Secret     string // the proxy sends it in X-Tidemark-Proxy-Secret. Default none: its address suffices

	JWT JWT

	SessionTTL time.Duration    // of a login in a browser; default 12h
	Now        func() time.Time // for the limit of wrong credentials; default time.Now
}

// Authenticator identifies the sender of a request.
type Authenticator struct {
	cfg    Config
	limits *limiter
	jwts   *jwts // nil: no JWTs are accepted
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
	a := &Authenticator{cfg: cfg, limits: &limiter{now: cfg.Now, full: map[netip.Addr]time.Time{}}}
	var err error
	if cfg.JWT.Issuer != "" || cfg.JWT.Audience != "" {
		a.jwts, err = newJWTs(cfg.JWT)
	}
	return a, err
}

// Configured reports whether any credentials can be valid: there is a valid token, a trusted proxy
// or an issuer of JWTs.
func (a *Authenticator) Configured(ctx context.Context) (bool, error) {
	if len(a.cfg.Proxies) > 0 || a.jwts != nil {
		return true, nil
	}
	return rows.One(ctx, a.cfg.Pool, pgx.RowTo[bool], "look for tokens", queryAny)
}

var errUnknown = errors.New("unknown credentials")

// identify returns the sender of a request, or the zero Identity if the request has no credentials.
// Errors are *problem.Problem or come from the database.
func (a *Authenticator) identify(w http.ResponseWriter, r *http.Request) (Identity, error) {
	if raw, ok := a.jwts.of(r); ok {
		return a.checked(r, "", func() (Identity, error) { return a.jwts.identity(r.Context(), raw) })
	}
	if header := r.Header.Get("Authorization"); header != "" {
		user, secret := credentials(header)
		return a.checked(r, secret, func() (Identity, error) { return a.token(r.Context(), secret, user) })
	}
	if id, ok, err := a.proxied(r); ok || err != nil {
		return id, err
	}
	if cookie, err := r.Cookie(a.cookieName(r)); err == nil && cookie.Value != "" {
		id, err := a.checked(r, cookie.Value, func() (Identity, error) {
			return a.find(r.Context(), querySession, cookie.Value, "session")
		})
		if refused, ok := errors.AsType[*problem.Problem](err); !ok || refused.Status != http.StatusUnauthorized {
			return id, err
		}
		a.clearCookie(w, r) // the session is over: go on without one
	}
	if a.cfg.Anonymous > Nobody && peer(r).IsLoopback() && !forwarded(r) {
		return Identity{Name: "anonymous", Role: a.cfg.Anonymous, Via: "anonymous"}, nil
	}
	return Identity{}, nil
}

// checked runs look and counts unknown credentials against the client's address. Once the address
// has sent too many, a secret that no token or session has is refused without look. Pass "" as the
// secret if look does not query the database.
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
	return Identity{}, unauthorized("the credentials are wrong, have expired or were revoked",
		"ask the people who run the worker for a token: tidemark token create")
}

// credentials returns the user, "" if there is none, and the token of an Authorization header.
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

// token returns the identity of a token. If name is not empty, the token must have that name.
func (a *Authenticator) token(ctx context.Context, token, name string) (Identity, error) {
	if !strings.HasPrefix(token, tokenPrefix) {
		return Identity{}, errUnknown
	}
	id, err := a.find(ctx, queryToken, token, "token")
	if err == nil && name != "" && name != id.Name {
		return Identity{}, errUnknown
	}
	return id, err
}

func (a *Authenticator) find(ctx context.Context, query, secret, via string) (Identity, error) {
	id := Identity{Via: via, secret: sha256.Sum256([]byte(secret))}
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

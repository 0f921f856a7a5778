package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// JWT configures which signed tokens are accepted. The zero value accepts none.
type JWT struct {
	Issuer    string // required
	Audience  string // required
	KeysURL   string // of the issuer's keys (JWKS); default: from OpenID Connect discovery
	Header    string // default "Authorization", as a bearer token
	UserClaim string // default "sub"
	RoleClaim string // viewer, operator or admin, or a list of them: the highest counts. Default none: all are viewers
}

const (
	keysTimeout = 5 * time.Second // of a request to the issuer
	// Between requests to one URL, because each token with an unknown key asks for the keys again.
	keysEach = 10 * time.Second
)

// jwts verifies tokens. It requests the issuer's keys for the first token and for each token with
// an unknown key.
type jwts struct {
	cfg    JWT
	client *http.Client

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier
}

func newJWTs(cfg JWT) (*jwts, error) {
	if cfg.Issuer == "" || cfg.Audience == "" {
		return nil, errors.New(
			"JWTs need an issuer and an audience: set TIDEMARK_ADMIN_JWT_ISSUER and TIDEMARK_ADMIN_JWT_AUDIENCE",
		)
	}
	for name, address := range map[string]string{
		"TIDEMARK_ADMIN_JWT_ISSUER": cfg.Issuer, "TIDEMARK_ADMIN_JWT_KEYS_URL": cfg.KeysURL,
	} {
		if u, err := url.Parse(address); err != nil || address != "" && !private(u) {
			return nil, fmt.Errorf("%s is %q: use an https URL, because whoever is between can replace keys that come over "+
				"http and then sign tokens for any role; http is for this machine alone, such as http://127.0.0.1:8080",
				name, address)
		}
	}
	cfg.Header = cmp.Or(cfg.Header, "Authorization")
	cfg.UserClaim = cmp.Or(cfg.UserClaim, "sub")
	return &jwts{
		cfg:    cfg,
		client: &http.Client{Timeout: keysTimeout, Transport: &patient{last: map[string]fetch{}}},
	}, nil
}

// of returns a request's JWT. Tidemark's own tokens have no dots.
func (j *jwts) of(r *http.Request) (raw string, ok bool) {
	if j == nil {
		return "", false
	}
	raw = r.Header.Get(j.cfg.Header)
	if scheme, rest, found := strings.Cut(raw, " "); found && strings.EqualFold(scheme, "bearer") {
		raw = rest
	}
	raw = strings.TrimSpace(raw)
	return raw, raw != "" && (!strings.EqualFold(j.cfg.Header, "Authorization") || strings.Count(raw, ".") == 2)
}

// identity verifies a token's signature, issuer, audience and times.
func (j *jwts) identity(ctx context.Context, raw string) (Identity, error) {
	verifier, err := j.ready(ctx)
	if err != nil {
		return Identity{}, err
	}
	token, err := verifier.Verify(oidc.ClientContext(ctx, j.client), raw)
	switch _, network := errors.AsType[*url.Error](err); {
	case network && !errors.Is(err, errSoon):
		return Identity{}, unreachable(err)
	case err != nil:
		return Identity{}, errUnknown
	}
	claims := map[string]any{}
	if token.Claims(&claims) != nil {
		return Identity{}, errUnknown
	}
	id := Identity{Role: Viewer, Via: "jwt", Until: token.Expiry}
	id.Name, _ = claims[j.cfg.UserClaim].(string)
	if id.Name = strings.TrimSpace(id.Name); !named(id.Name) {
		return Identity{}, unauthorized("the token names no user in "+j.cfg.UserClaim,
			"choose another claim with TIDEMARK_ADMIN_JWT_USER_CLAIM")
	}
	if claim, ok := claims[j.cfg.RoleClaim]; ok && j.cfg.RoleClaim != "" {
		if id.Role = highest(claim); id.Role == Nobody {
			return Identity{}, unauthorized("the token has no valid role in "+j.cfg.RoleClaim, "use viewer, operator or admin")
		}
	}
	return id, nil
}

// ready returns the verifier. The first call runs the issuer's discovery unless KeysURL is set.
func (j *jwts) ready(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.verifier != nil {
		return j.verifier, nil
	}
	// Later requests refresh the keys in the background, so their context must not end with this
	// request.
	client := oidc.ClientContext(context.WithoutCancel(ctx), j.client)
	config := &oidc.Config{ClientID: j.cfg.Audience, SupportedSigningAlgs: []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
		oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
	}}
	if j.cfg.KeysURL != "" {
		j.verifier = oidc.NewVerifier(j.cfg.Issuer, oidc.NewRemoteKeySet(client, j.cfg.KeysURL), config)
		return j.verifier, nil
	}
	provider, err := oidc.NewProvider(client, j.cfg.Issuer)
	if err != nil {
		return nil, unreachable(err)
	}
	j.verifier = provider.VerifierContext(client, config)
	return j.verifier, nil
}

func unreachable(err error) error {
	return problem.New(
		http.StatusServiceUnavailable,
		fmt.Sprintf("the issuer's keys cannot be read: %v", err),
		"look at TIDEMARK_ADMIN_JWT_ISSUER and TIDEMARK_ADMIN_JWT_KEYS_URL, or use a token",
	)
}

func highest(claim any) Role {
	names, ok := claim.([]any)
	if !ok {
		names = []any{claim}
	}
	most := Nobody
	for _, name := range names {
		text, _ := name.(string)
		if role, err := ParseRole(strings.ToLower(strings.TrimSpace(text))); err == nil {
			most = max(most, role)
		}
	}
	return most
}

// named reports whether a user name from a proxy or a JWT is fit for logs.
func named(name string) bool {
	return name != "" && len(name) <= 2*nameBytes && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) })
}

// errSoon is returned for a request that was answered less than keysEach ago.
var errSoon = errors.New("asked a moment ago")

// patient sends a request to a URL at most once in keysEach; after a failure, once a second.
type patient struct {
	mu   sync.Mutex
	last map[string]fetch
}

type fetch struct {
	at  time.Time
	err error
}

// private reports whether nobody between can change what a URL answers.
func private(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" && u.Host != "" ||
		u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// RoundTrip sends the request, or returns errSoon or the last error of that URL. Redirects and the
// addresses of a discovery come here too.
func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	if !private(r.URL) {
		return nil, fmt.Errorf("%s is not an https URL", r.URL.Redacted())
	}
	key := r.URL.String()
	p.mu.Lock()
	last := p.last[key]
	if soon := time.Since(last.at) < keysEach; soon && (last.err == nil || time.Since(last.at) < time.Second) {
		p.mu.Unlock()
		if last.err != nil {
			return nil, last.err
		}
		return nil, errSoon
	}
	p.last[key] = fetch{at: time.Now()}
	p.mu.Unlock()
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		p.mu.Lock()
		p.last[key] = fetch{time.Now(), err}
		p.mu.Unlock()
	}
	return response, err
}

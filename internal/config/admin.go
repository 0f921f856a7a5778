package config

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
)

// Admin is the settings of the admin listener.
type Admin struct {
	Addr             string
	DatabaseURL      string
	Auth             auth.Config // without its Pool
	Payloads         payload.Rule
	TLSCert, TLSKey  string
	Connections      int
	StatementTimeout time.Duration
}

// AdminSettings binds the settings of a.
func AdminSettings(s *Set, a *Admin) {
	s.String(&a.Addr, "TIDEMARK_ADMIN_ADDR", "off", "address of the pages and the API for operators; \"off\" for none")
	s.String(&a.DatabaseURL, "TIDEMARK_ADMIN_DATABASE_URL", "", "database of pages and API; empty: the worker's")
	s.role(&a.Auth.Anonymous, "TIDEMARK_ADMIN_ANONYMOUS", "role of requests without credentials, on loopback only",
		"none", "viewer", "operator", "admin")
	s.networks(&a.Auth.Forwarders, "TIDEMARK_ADMIN_FORWARDERS",
		"networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted, separated by commas")
	s.networks(&a.Auth.Proxies, "TIDEMARK_ADMIN_PROXIES",
		"networks of proxies whose user header is trusted, separated by commas")
	s.String(&a.Auth.UserHeader, "TIDEMARK_ADMIN_PROXY_USER_HEADER", "X-Forwarded-User", "header with the user")
	s.String(&a.Auth.RoleHeader, "TIDEMARK_ADMIN_PROXY_ROLE_HEADER", "",
		"header with the role, which needs the secret; empty: all are viewers")
	s.String(&a.Auth.Secret, "TIDEMARK_ADMIN_PROXY_SECRET", "",
		"secret that they send in X-Tidemark-Proxy-Secret, at least 16 characters")
	jwt := &a.Auth.JWT
	s.String(&jwt.Issuer, "TIDEMARK_ADMIN_JWT_ISSUER", "", "issuer of JWTs that identify users; empty: none")
	s.String(&jwt.Audience, "TIDEMARK_ADMIN_JWT_AUDIENCE", "", "required audience of the JWTs")
	s.String(&jwt.KeysURL, "TIDEMARK_ADMIN_JWT_KEYS_URL", "",
		"URL of the issuer's keys (JWKS); empty: found by OpenID Connect discovery")
	s.String(&jwt.Header, "TIDEMARK_ADMIN_JWT_HEADER", "Authorization", "header with the JWT")
	s.String(&jwt.UserClaim, "TIDEMARK_ADMIN_JWT_USER_CLAIM", "sub", "claim with the user")
	s.String(&jwt.RoleClaim, "TIDEMARK_ADMIN_JWT_ROLE_CLAIM", "", "claim with the role; empty: all are viewers")
	s.role(&a.Payloads.Least, "TIDEMARK_ADMIN_PAYLOADS", "lowest role that sees payloads of events",
		"operator", "viewer", "admin")
	add(s, &a.Payloads.Redact, "TIDEMARK_ADMIN_REDACT", nil,
		"JSON paths of values in payloads that are hidden from all roles, separated by commas, e.g. $.card.number,$..email",
		list[payload.Path], payload.ParsePaths)
	s.String(&a.TLSCert, "TIDEMARK_ADMIN_TLS_CERT", "", "certificate of the listener, a PEM file; empty: plain HTTP")
	s.String(&a.TLSKey, "TIDEMARK_ADMIN_TLS_KEY", "", "key of the certificate, a PEM file")
	s.Int(&a.Connections, "TIDEMARK_ADMIN_CONNECTIONS", 4, 1, "maximum number of database connections of pages and API")
	s.Duration(&a.StatementTimeout, "TIDEMARK_ADMIN_STATEMENT_TIMEOUT", 5*time.Second, 100*time.Millisecond,
		"timeout of a statement of pages and API")
}

// role adds a setting that must be one of names; the first is the default.
func (s *Set) role(target *auth.Role, env, usage string, names ...string) {
	format := func(r auth.Role) string {
		if r == auth.Nobody {
			return "none"
		}
		return r.String()
	}
	choice(s, target, env, usage, names, format, func(text string) auth.Role {
		r, _ := auth.ParseRole(text) // "none" is Nobody
		return r
	})
}

// networks adds a list of networks in CIDR notation, separated by commas.
func (s *Set) networks(target *[]netip.Prefix, env, usage string) {
	add(s, target, env, nil, usage, list[netip.Prefix], func(text string) (all []netip.Prefix, err error) {
		for one := range strings.SplitSeq(text, ",") {
			if one = strings.TrimSpace(one); one == "" {
				continue
			}
			network, err := netip.ParsePrefix(one)
			if err != nil {
				return nil, fmt.Errorf("has %q, which is not a network: write it as 10.0.0.0/8, or 10.0.0.7/32 for one address",
					one)
			}
			all = append(all, network)
		}
		return all, nil
	})
}

func list[T fmt.Stringer](things []T) string {
	return strings.Join(slice.Of(things, T.String), ",")
}

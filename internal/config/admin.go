package config

import "time"

// Admin is the settings of the admin listener.
type Admin struct {
	Addr             string
	DatabaseURL      string
	Anonymous        string
	Forwarders       string
	Proxies          string
	UserHeader       string
	RoleHeader       string
	ProxySecret      string
	JWTIssuer        string
	JWTAudience      string
	JWTKeysURL       string
	JWTHeader        string
	JWTUserClaim     string
	JWTRoleClaim     string
	Payloads         string
	Redact           string
	TLSCert, TLSKey  string
	Connections      int
	StatementTimeout time.Duration
}

// AdminSettings binds them.
func AdminSettings(s *Set, a *Admin) {
	s.String(&a.Addr, "admin-addr", "TIDEMARK_ADMIN_ADDR", "off",
		"address of the pages and the API for operators; \"off\" for none")
	s.String(&a.DatabaseURL, "admin-database-url", "TIDEMARK_ADMIN_DATABASE_URL", "",
		"database for these; empty: the worker's")
	s.Choice(&a.Anonymous, "admin-anonymous", "TIDEMARK_ADMIN_ANONYMOUS",
		"role of requests without credentials, on loopback only", "none", "viewer", "operator",
		"admin")
	s.String(&a.Forwarders, "admin-forwarders", "TIDEMARK_ADMIN_FORWARDERS", "",
		"networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed, separated by commas")
	s.String(&a.Proxies, "admin-proxies", "TIDEMARK_ADMIN_PROXIES", "",
		"networks of proxies that say who sends a request, separated by commas")
	s.String(&a.UserHeader, "admin-proxy-user-header", "TIDEMARK_ADMIN_PROXY_USER_HEADER", "X-Forwarded-User",
		"header in which they say who")
	s.String(&a.RoleHeader, "admin-proxy-role-header", "TIDEMARK_ADMIN_PROXY_ROLE_HEADER", "",
		"header in which they say the role, which needs the secret; empty: all are viewers")
	s.String(&a.ProxySecret, "admin-proxy-secret", "TIDEMARK_ADMIN_PROXY_SECRET", "",
		"secret that they send in X-Tidemark-Proxy-Secret, at least 16 characters")
	s.String(&a.JWTIssuer, "admin-jwt-issuer", "TIDEMARK_ADMIN_JWT_ISSUER", "",
		"issuer of JWTs that say who sends a request; empty: none")
	s.String(&a.JWTAudience, "admin-jwt-audience", "TIDEMARK_ADMIN_JWT_AUDIENCE", "", "audience that they must be for")
	s.String(&a.JWTKeysURL, "admin-jwt-keys-url", "TIDEMARK_ADMIN_JWT_KEYS_URL", "",
		"its keys (JWKS); empty: where OpenID Connect discovery says")
	s.String(&a.JWTHeader, "admin-jwt-header", "TIDEMARK_ADMIN_JWT_HEADER", "Authorization", "header that has the JWT")
	s.String(&a.JWTUserClaim, "admin-jwt-user-claim", "TIDEMARK_ADMIN_JWT_USER_CLAIM", "sub", "claim that says who")
	s.String(&a.JWTRoleClaim, "admin-jwt-role-claim", "TIDEMARK_ADMIN_JWT_ROLE_CLAIM", "",
		"claim that says the role; empty: all are viewers")
	s.Choice(&a.Payloads, "admin-payloads", "TIDEMARK_ADMIN_PAYLOADS", "least role that sees payloads of events",
		"operator", "viewer",
		"admin")
	s.String(&a.Redact, "admin-redact", "TIDEMARK_ADMIN_REDACT", "",
		"JSON paths of values in payloads that are hidden from all roles, separated by commas, e.g. $.card.number,$..email")
	s.String(&a.TLSCert, "admin-tls-cert", "TIDEMARK_ADMIN_TLS_CERT", "",
		"certificate of the listener, a PEM file; empty: plain HTTP")
	s.String(&a.TLSKey, "admin-tls-key", "TIDEMARK_ADMIN_TLS_KEY", "", "its key, a PEM file")
	s.Int(&a.Connections, "admin-connections", "TIDEMARK_ADMIN_CONNECTIONS", 4, 1,
		"connections of the listener to the database, at most")
	s.Duration(&a.StatementTimeout, "admin-statement-timeout", "TIDEMARK_ADMIN_STATEMENT_TIMEOUT", 5*time.Second,
		100*time.Millisecond,
		"time that one of its statements may take")
}

package config

import "time"

// Admin is the settings of the admin listener.
type Admin struct {
	Addr             string
	DatabaseURL      string
	Anonymous        string
	Proxies          string
	UserHeader       string
	RoleHeader       string
	Payloads         string
	Redact           string
	TLSCert, TLSKey  string
	Connections      int
	StatementTimeout time.Duration
}

// AdminSettings binds them.
func AdminSettings(s *Set, a *Admin) {
	s.String(&a.Addr, "admin-addr", "TIDEMARK_ADMIN_ADDR", "off", "address of the pages and the API for operators; \"off\" for none")
	s.String(&a.DatabaseURL, "admin-database-url", "TIDEMARK_ADMIN_DATABASE_URL", "", "database for these; empty: the worker's")
	s.Choice(&a.Anonymous, "admin-anonymous", "TIDEMARK_ADMIN_ANONYMOUS", "role of requests without credentials, on loopback only", "none", "viewer", "operator", "admin")
	s.String(&a.Proxies, "admin-proxies", "TIDEMARK_ADMIN_PROXIES", "", "networks of proxies that say who sends a request, separated by commas")
	s.String(&a.UserHeader, "admin-proxy-user-header", "TIDEMARK_ADMIN_PROXY_USER_HEADER", "X-Forwarded-User", "header in which they say who")
	s.String(&a.RoleHeader, "admin-proxy-role-header", "TIDEMARK_ADMIN_PROXY_ROLE_HEADER", "X-Forwarded-Role", "header in which they say the role; a viewer without it")
	s.Choice(&a.Payloads, "admin-payloads", "TIDEMARK_ADMIN_PAYLOADS", "least role that sees payloads of events", "operator", "viewer", "admin")
	s.String(&a.Redact, "admin-redact", "TIDEMARK_ADMIN_REDACT", "", "JSON paths of values in payloads that nobody sees, separated by commas, e.g. $.card.number,$..email")
	s.String(&a.TLSCert, "admin-tls-cert", "TIDEMARK_ADMIN_TLS_CERT", "", "certificate of the listener, a PEM file; empty: plain HTTP")
	s.String(&a.TLSKey, "admin-tls-key", "TIDEMARK_ADMIN_TLS_KEY", "", "its key, a PEM file")
	s.Int(&a.Connections, "admin-connections", "TIDEMARK_ADMIN_CONNECTIONS", 4, 1, "connections of the listener to the database, at most")
	s.Duration(&a.StatementTimeout, "admin-statement-timeout", "TIDEMARK_ADMIN_STATEMENT_TIMEOUT", 5*time.Second, 100*time.Millisecond, "time that one of its statements may take")
}

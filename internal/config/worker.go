package config

import (
	"time"

	"github.com/spf13/pflag"
)

// Worker is the settings of a worker.
type Worker struct {
	DatabaseURL     string
	ConsumerGroup   string
	ProjectionsDir  string
	Schema          string
	Catalogue       string
	PollInterval    time.Duration
	ClaimCampaigns  int
	GroupEvents     int
	LeaseTTL        time.Duration
	Concurrency     int
	Listen          bool
	ShutdownTimeout time.Duration
	HTTPAddr        string
	LogFormat       string
	LogLevel        string
}

// NewWorker binds a worker's settings to flags. Call Finish on the set once the flags are parsed.
func NewWorker(flags *pflag.FlagSet) (*Worker, *Set) {
	w, s := &Worker{}, NewSet(flags)
	flags.SortFlags = false
	s.String(&w.DatabaseURL, "database-url", "TIDEMARK_DATABASE_URL", "", "database; empty: the private Postgres under .tidemark/")
	s.String(&w.ConsumerGroup, "consumer-group", "TIDEMARK_CONSUMER_GROUP", "default", "consumer group to serve")
	s.String(&w.ProjectionsDir, "projections-dir", "TIDEMARK_PROJECTIONS_DIR", "", "folder of SQL-file projections")
	s.String(&w.Schema, "schema", "TIDEMARK_SCHEMA", "public", "schema of the projections' tables")
	s.String(&w.Catalogue, "catalogue", "TIDEMARK_CATALOGUE", "", "event catalogue, a YAML file")
	s.Duration(&w.PollInterval, "poll-interval", "TIDEMARK_POLL_INTERVAL", 2*time.Second, time.Millisecond, "longest wait between looks at the queue")
	s.Int(&w.ClaimCampaigns, "claim-campaigns", "TIDEMARK_CLAIM_CAMPAIGNS", 64, 1, "campaigns leased by one claim")
	s.Int(&w.GroupEvents, "group-events", "TIDEMARK_GROUP_EVENTS", 1000, 1, "events applied in one transaction, at most")
	s.Duration(&w.LeaseTTL, "lease-ttl", "TIDEMARK_LEASE_TTL", 30*time.Second, time.Second, "time after which a dead worker's campaigns are taken over")
	s.Int(&w.Concurrency, "apply-concurrency", "TIDEMARK_APPLY_CONCURRENCY", 4, 1, "groups applied at the same time")
	s.Bool(&w.Listen, "listen", "TIDEMARK_LISTEN", true, "be woken by NOTIFY; off: by polling alone, e.g. behind PgBouncer in transaction mode")
	s.Duration(&w.ShutdownTimeout, "shutdown-timeout", "TIDEMARK_SHUTDOWN_TIMEOUT", 10*time.Second, time.Millisecond, "time for groups under way to finish at shutdown")
	HTTPAddr(s, &w.HTTPAddr)
	s.Choice(&w.LogFormat, "log-format", "TIDEMARK_LOG_FORMAT", "log format", "auto", "tint", "json")
	s.Choice(&w.LogLevel, "log-level", "TIDEMARK_LOG_LEVEL", "log level", "info", "debug", "warn", "error")
	return w, s
}

// HTTPAddr binds the address of a worker's health, readiness and metrics.
func HTTPAddr(s *Set, target *string) {
	s.String(target, "http-addr", "TIDEMARK_HTTP_ADDR", "127.0.0.1:8080", "address of health, readiness and metrics; \"off\" for none")
}

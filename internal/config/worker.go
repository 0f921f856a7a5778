package config

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/pkg/projector"
)

// Worker holds the settings of a worker.
type Worker struct {
	DatabaseURL    string
	Outbox         Outbox
	Projector      projector.Config // without what comes from other settings, such as Pool and GapRate
	GapRate        int              // campaigns a second; 0: none
	Listen         bool
	ProjectionsDir string
	Catalogue      string
	ActsRetention  time.Duration // of tidemark.operator_log
	HTTPAddr       string

	Admin Admin

	Publishing
	PublishPollInterval time.Duration

	Traces    bool // sent to the endpoint in OpenTelemetry's own variables
	LogFormat string
	LogLevel  string

	Shown []Setting // all settings, for display
}

// NewWorker binds a worker's settings to flags. Call Finish on the set once the flags are parsed.
func NewWorker(flags *pflag.FlagSet) (*Worker, *Set) {
	w, s := &Worker{}, NewSet(flags)
	c := &w.Projector
	flags.SortFlags = false
	s.String(&w.DatabaseURL, "TIDEMARK_DATABASE_URL", "", "database; empty: the private Postgres under .tidemark/")
	s.String(&c.ConsumerGroup, "TIDEMARK_CONSUMER_GROUP", "default", "consumer group to serve")
	OutboxSwitches(s, &w.Outbox)
	s.String(&w.ProjectionsDir, "TIDEMARK_PROJECTIONS_DIR", "", "folder of SQL-file projections")
	s.String(&c.Schema, "TIDEMARK_SCHEMA", "tidemark_views", "schema of the projections' tables")
	s.String(&w.Catalogue, "TIDEMARK_CATALOGUE", "", "event catalogue, a YAML file")
	s.Duration(&c.PollInterval, "TIDEMARK_POLL_INTERVAL", 2*time.Second, time.Millisecond,
		"longest wait between looks at the queue")
	s.Int(&c.ClaimCampaigns, "TIDEMARK_CLAIM_CAMPAIGNS", 64, 1, "campaigns leased by one claim")
	s.Int(&c.GroupEvents, "TIDEMARK_GROUP_EVENTS", 1000, 1, "events applied in one transaction, at most")
	s.Duration(&c.LeaseTTL, "TIDEMARK_LEASE_TTL", 30*time.Second, time.Second,
		"time after which a dead worker's campaigns are taken over")
	s.Duration(&c.ApplyTimeout, "TIDEMARK_APPLY_TIMEOUT", 20*time.Second, time.Millisecond,
		"time that one projection may take for one group")
	s.Int(&c.Concurrency, "TIDEMARK_APPLY_CONCURRENCY", 4, 1, "groups applied at the same time")
	s.Int(&c.OnFailure.Attempts, "TIDEMARK_RETRY_ATTEMPTS", 8, 1,
		"failures at one event that make a projection's campaign wait for an operator")
	s.Duration(&c.OnFailure.Base, "TIDEMARK_RETRY_BASE", time.Second, time.Millisecond,
		"wait after the first failure at an event; doubles with each further one")
	s.Duration(&c.OnFailure.Max, "TIDEMARK_RETRY_MAX", 5*time.Minute, time.Millisecond,
		"longest wait between attempts at an event")
	s.Duration(&c.FailureLogRetention, "TIDEMARK_FAILURE_LOG_RETENTION", 30*24*time.Hour, time.Second,
		"time for which the log of failures and operators' acts is kept")
	s.Duration(&w.ActsRetention, "TIDEMARK_OPERATOR_LOG_RETENTION", 365*24*time.Hour,
		time.Second, "time for which the record of all that operators did is kept")
	s.Int(&w.GapRate, "TIDEMARK_GAP_RATE", 5000, 0,
		"campaigns a second in which gaps are looked for, in the background; 0: none")
	s.Bool(&c.Proof, "TIDEMARK_PROOF", false,
		"keep the proof of what was applied also where all projections are SQL files; it costs a look at each event")
	s.Bool(&w.Listen, "TIDEMARK_LISTEN", true,
		"be woken by NOTIFY; off: by polling alone, e.g. behind PgBouncer in transaction mode")
	s.Duration(&c.ShutdownTimeout, "TIDEMARK_SHUTDOWN_TIMEOUT", 10*time.Second, time.Millisecond,
		"time for groups under way to finish at shutdown")
	PublishingSettings(s, &w.Publishing)
	s.Duration(&w.PublishPollInterval, "TIDEMARK_PUBLISH_POLL_INTERVAL", 500*time.Millisecond,
		time.Millisecond, "wait between looks at the journal where there was nothing; doubles when idle")
	HTTPAddr(s, &w.HTTPAddr)
	AdminSettings(s, &w.Admin)
	s.Bool(&w.Traces, "TIDEMARK_OTEL_TRACES", false,
		"send OpenTelemetry traces by OTLP over HTTP to OTEL_EXPORTER_OTLP_ENDPOINT")
	s.Choice(&w.LogFormat, "TIDEMARK_LOG_FORMAT", "log format", "auto", "tint", "json")
	s.Choice(&w.LogLevel, "TIDEMARK_LOG_LEVEL", "log level", "info", "debug", "warn", "error")
	return w, s
}

// HTTPAddr binds the address for a worker's health, readiness and metrics.
func HTTPAddr(s *Set, target *string) {
	s.String(target, "TIDEMARK_HTTP_ADDR", "127.0.0.1:8080",
		"address of health, readiness and metrics; \"off\" for none")
}

// CheckRetries rejects a longest wait that is shorter than the first one.
func CheckRetries(w *Worker) error {
	if p := w.Projector.OnFailure; p.Max < p.Base {
		return fmt.Errorf("TIDEMARK_RETRY_MAX is %v and TIDEMARK_RETRY_BASE is %v: the longest wait must be at least the "+
			"first", p.Max, p.Base)
	}
	return nil
}

// Publishing names what to publish and where.
type Publishing struct {
	Publishers string
	PublishURL string
}

// PublishingSettings binds the settings of p.
func PublishingSettings(s *Set, p *Publishing) {
	s.String(&p.Publishers, "TIDEMARK_PUBLISHERS", "", "what to publish where, a YAML file")
	s.String(&p.PublishURL, "TIDEMARK_PUBLISH_URL", "", "instead of the file: where to publish all events")
}

package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/pkg/projection"
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
	WrappingKeys   WrappingKeys
	Archive        Archive
	Retention      string        // file of policies
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
	s.String(&w.DatabaseURL, "TIDEMARK_DATABASE_URL", "", "database; without it only --dev runs a worker")
	s.String(&c.ConsumerGroup, "TIDEMARK_CONSUMER_GROUP", "default", "consumer group to serve")
	OutboxSwitches(s, &w.Outbox)
	s.String(&w.ProjectionsDir, "TIDEMARK_PROJECTIONS_DIR", "", "folder of SQL-file projections")
	s.String(&c.Schema, "TIDEMARK_SCHEMA", "tidemark_views", "schema of the projections' tables")
	s.String(&w.Catalogue, "TIDEMARK_CATALOGUE", "", "event catalogue, a YAML file")
	WrappingKeySettings(s, &w.WrappingKeys)
	ArchiveSetting(s, &w.Archive)
	s.String(&w.Retention, "TIDEMARK_RETENTION", "",
		"policies by which closed campaigns are archived and brought back, a YAML file")
	s.Duration(&c.PollInterval, "TIDEMARK_POLL_INTERVAL", 2*time.Second, time.Millisecond,
		"longest wait between polls of the queue")
	s.Int(&c.ClaimCampaigns, "TIDEMARK_CLAIM_CAMPAIGNS", 64, 1, "campaigns leased by one claim")
	s.Int(&c.GroupEvents, "TIDEMARK_GROUP_EVENTS", 1000, 1, "maximum number of events applied in one transaction")
	s.Duration(&c.LeaseTTL, "TIDEMARK_LEASE_TTL", 30*time.Second, time.Second,
		"time after which a dead worker's campaigns are taken over")
	s.Duration(&c.ApplyTimeout, "TIDEMARK_APPLY_TIMEOUT", 20*time.Second, time.Millisecond,
		"timeout of one projection for one group")
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
		"campaigns searched for gaps per second, in the background; 0: none")
	s.Bool(&c.Proof, "TIDEMARK_PROOF", false,
		"keep the proof of applied events even if all projections are SQL files; each event is then read")
	s.Bool(&w.Listen, "TIDEMARK_LISTEN", true,
		"wake by NOTIFY; off: only poll, e.g. behind PgBouncer in transaction mode")
	s.Duration(&c.ShutdownTimeout, "TIDEMARK_SHUTDOWN_TIMEOUT", 10*time.Second, time.Millisecond,
		"time for groups under way to finish at shutdown")
	s.String(&w.Publishers, "TIDEMARK_PUBLISHERS", "", "topics and publishers, a YAML file")
	s.String(&w.PublishURL, "TIDEMARK_PUBLISH_URL", "",
		"instead of the file: where to publish all events")
	s.Duration(&w.PublishPollInterval, "TIDEMARK_PUBLISH_POLL_INTERVAL", 500*time.Millisecond,
		time.Millisecond, "wait between polls of the journal; doubles when idle")
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

// The variables that resolve to a mode.
const (
	envOutbox = "TIDEMARK_PROJECTION_APPLY_OUTBOX_ENABLED"
	envShadow = "TIDEMARK_PROJECTION_APPLY_OUTBOX_SHADOW_WORKER_ENABLED"
	envWorker = "TIDEMARK_PROJECTION_APPLY_OUTBOX_WORKER_ENABLED"
)

// Outbox holds the switches that resolve to a mode.
type Outbox struct {
	Enabled bool   // appends enqueue
	Shadow  bool   // a shadow worker runs
	Worker  string // an apply worker runs: "true", "false" or "auto" (if the outbox is on and the shadow worker off)

	from map[string]string // by variable: its source
}

// Mode is the mode that an [Outbox] resolves to.
type Mode struct {
	Mode    projection.Mode
	Warning string // a switch that has no effect; empty: none
	From    string // the switches that were set and their sources, for people; empty: all have their defaults
}

// OutboxSwitches binds the switches of o.
func OutboxSwitches(s *Set, o *Outbox) {
	s.Bool(&o.Enabled, envOutbox, true,
		"appends enqueue work for the consumer group; off: they apply its projections inline")
	s.Bool(&o.Shadow, envShadow, false, "apply and roll back, to see what would happen")
	same := func(text string) string { return text }
	add(s, &o.Worker, envWorker, "auto",
		"apply what is enqueued, true or false; auto: unless the outbox is off or the shadow worker is on", same,
		func(text string) (string, error) {
			if text == "auto" {
				return text, nil
			}
			b, err := strconv.ParseBool(text)
			if err != nil {
				return "", errors.New("must be true, false or auto")
			}
			return strconv.FormatBool(b), nil
		})
	s.flags.Lookup(flagOf(envWorker)).NoOptDefVal = "true"
	o.from = s.from
}

// Mode resolves the switches. Both kinds of worker need the outbox. An apply worker takes precedence
// over a shadow worker.
func (o Outbox) Mode() (Mode, error) {
	worker := o.Worker == "true" || o.Worker != "false" && o.Enabled && !o.Shadow
	m := Mode{From: o.origin(worker)}
	if !o.Enabled {
		var errs []error
		if worker {
			errs = append(errs,
				fmt.Errorf("%s is true and %s is false: the apply worker needs the outbox, without which nothing is enqueued; "+
					"turn the outbox on, or the worker off", envWorker, envOutbox))
		}
		if o.Shadow {
			errs = append(errs,
				fmt.Errorf("%s is true and %s is false: the shadow worker needs the outbox, without which nothing is enqueued; "+
					"turn the outbox on, or the shadow worker off", envShadow, envOutbox))
		}
		m.Mode = projection.ModeInlineApplyOnly
		return m, errors.Join(errs...)
	}
	switch {
	case worker:
		m.Mode = projection.ModeOutboxApplyOnly
		if o.Shadow {
			m.Warning = fmt.Sprintf("%s has no effect beside %s: the apply worker takes precedence", envShadow, envWorker)
		}
	case o.Shadow:
		m.Mode = projection.ModeShadowOnly
	default:
		m.Mode = projection.ModeEnqueueOnly
	}
	return m, nil
}

// origin returns the switches that were set, with their sources.
func (o Outbox) origin(worker bool) string {
	var parts []string
	for _, s := range []struct {
		name  string
		value bool
	}{{envOutbox, o.Enabled}, {envWorker, worker}, {envShadow, o.Shadow}} {
		if from := o.from[s.name]; from != "" {
			parts = append(parts, fmt.Sprintf("%s=%t (%s)", s.name, s.value, from))
		}
	}
	return strings.Join(parts, ", ")
}

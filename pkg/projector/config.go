package projector

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// applyTimeout is the lower bound of the default of [Config].ApplyTimeout.
const applyTimeout = 5 * time.Second

// Config configures a [Projector]. Only Pool and Projections are required.
type Config struct {
	// at least Concurrency + 2 connections, two more for rebuilds; the projector does not close it
	Pool        *pgxpool.Pool
	Projections []projection.Projection

	ConsumerGroup string               // default "default"
	Schema        string               // of the projections' tables; default "tidemark_views"; created if missing
	Catalogue     *catalogue.Catalogue // aliases and upcasters; default: payloads as stored
	Archive       event.Archive        // reads archived campaigns; default: they are an error
	Logger        *slog.Logger         // default: discard
	Registerer    prometheus.Registerer

	// TracerProvider makes a span of each applied group of events, linked to the traces of its events
	// (the Trace of [journal.Journal]). It also makes a span of each inline apply, as a child of the span in its
	// context, and of each range and exchange of a rebuild. With it the worker reads all events, also
	// those that the database applies itself. Default nil: no spans, no cost.
	TracerProvider trace.TracerProvider

	PollInterval   time.Duration // longest time between looks at the queue; default 2s
	ClaimCampaigns int           // campaigns per claim; default 64
	GroupEvents    int           // events per transaction, at most; default 1000
	GroupBytes     int64         // bytes of payload loaded per transaction, about; default 8 MiB
	LeaseTTL       time.Duration // how long a dead worker's campaigns wait; default 30s, at least 1s
	Concurrency    int           // groups applied at a time; default 4
	NoListen       bool          // poll only
	// wait for [StartRebuild] when a version rises; default: the first worker with it starts the rebuild
	ManualRebuilds bool
	// [Projector.Verify] and the other replays find bare names only in pg_catalog and the projection's
	// own tables: for sessions with more rights than the workers' role
	OwnTablesOnly bool
	NoFunctions   bool // run SQL files statement by statement, without database functions

	// for events that a projection cannot apply, unless the projection has a policy; default: see [projection.Policy]
	OnFailure           projection.Policy
	FailureLogRetention time.Duration // of rows of tidemark.failure_log; default 30 days, at least 1s

	// for one projection and one group, unless a policy has its own; default two thirds of LeaseTTL, at least 5s
	ApplyTimeout time.Duration

	ShutdownTimeout time.Duration // time for a group under way to finish after Run is cancelled; default 10s

	// GapRate is the number of campaigns per second checked for gaps ([outbox.Gap]) in the background,
	// when Run begins and every hour. Gaps are repaired. Default 5000, which keeps a twentieth of a
	// core of the server busy; -1: never.
	GapRate int

	// Proof keeps a hash of the ids of applied events ([lease.Prove]) also in groups whose projections
	// are all functions of the database. Such groups do not read the events otherwise. Groups that
	// read events always keep the hash.
	Proof bool

	Mode projection.Mode // how events reach the projections; default [projection.ModeOutboxApplyOnly]
	// ApplyInline leaves failures, held campaigns and backlogs beyond one group to workers; not with
	// ModeInlineApplyOnly
	InlineBestEffort bool

	// OnStep, if set, is called at each step of the loop, on its goroutine. This module's tests use it
	// to stop a worker in the middle.
	OnStep func(step string)
}

func complete(c Config) (Config, error) {
	var errs []error
	if c.Pool == nil {
		errs = append(errs, errors.New("Pool is required"))
	}
	c.ConsumerGroup = cmp.Or(c.ConsumerGroup, "default")
	c.Schema = cmp.Or(c.Schema, "tidemark_views")
	if c.Schema == "tidemark" || strings.HasPrefix(c.Schema, "pg_") {
		errs = append(errs, fmt.Errorf("Schema %q is reserved: choose another for read models", c.Schema))
	}
	c.Logger = redact.Logger(cmp.Or(c.Logger, slog.New(slog.DiscardHandler)))
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
	errs = append(errs,
		positive("PollInterval", &c.PollInterval, 2*time.Second, time.Millisecond),
		positive("ClaimCampaigns", &c.ClaimCampaigns, 64, 1),
		positive("GroupEvents", &c.GroupEvents, 1000, 1),
		positive("GroupBytes", &c.GroupBytes, 8<<20, 1),
		positive("LeaseTTL", &c.LeaseTTL, 30*time.Second, time.Second),
		positive("Concurrency", &c.Concurrency, 4, 1),
		positive("GapRate", &c.GapRate, 5000, -1),
		positive("ShutdownTimeout", &c.ShutdownTimeout, 10*time.Second, time.Millisecond),
		positive("FailureLogRetention", &c.FailureLogRetention, 30*24*time.Hour, time.Second),
	)
	errs = append(errs, positive("ApplyTimeout", &c.ApplyTimeout, max(c.LeaseTTL*2/3, applyTimeout), time.Millisecond))
	c.OnFailure.Timeout = cmp.Or(c.OnFailure.Timeout, c.ApplyTimeout)
	c.OnFailure = c.OnFailure.Or(projection.DefaultPolicy())
	if err := c.OnFailure.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("OnFailure: %w", err))
	}
	c.Mode = cmp.Or(c.Mode, projection.ModeOutboxApplyOnly)
	if !slices.Contains(kind.Modes(), c.Mode) {
		errs = append(errs, fmt.Errorf("Mode is %q, known are %v", c.Mode, kind.Modes()))
	}
	if c.Mode == projection.ModeInlineApplyOnly && c.InlineBestEffort {
		errs = append(errs,
			fmt.Errorf("InlineBestEffort leaves failures to workers, and Mode %s has none: choose another mode, "+
				"or let failures fail the append", c.Mode))
	}
	if c.OnStep == nil {
		c.OnStep = func(string) {}
	}
	return c, errors.Join(errs...)
}

// positive sets *v to its default if it is zero, and refuses values below least.
func positive[T ~int | ~int64](name string, v *T, standard, least T) error {
	if *v = cmp.Or(*v, standard); *v < least {
		return fmt.Errorf("%s is %v, at least %v is needed", name, *v, least)
	}
	return nil
}

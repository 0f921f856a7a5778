package registry

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/tracing"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Base is shared by all parts of a projector: the configuration, the projections that it has, and
// the last reading of the registry.
type Base struct {
	Cfg         Settings
	Projections []*Projection // with the live tables
	Sets        []*Projection // with every set of tables that they may have
	Seen        atomic.Pointer[View]
	Metrics     *Metrics
	Keeper      lease.Keeper
	Host        string
	SearchPath  string
	Longest     time.Duration // timeout of any projection and event type
	Promises    promises
	Pulse       loops.Pulse
	Tracer      *tracing.Tracer      // nil: no traces
	Mode        pgx.QueryExecMode    // of the pool's connections
	Streams     bool                 // statements stay prepared: not through PgBouncer
	Notice      pgconn.NoticeHandler // of the pool's connections
	Applied     atomic.Int64         // events
	Draining    bool                 // Drain, not Run
	Entered     atomic.Bool          // its projections are in the registry
}

// Whole returns a context for claims. A cancelled claim may still lease campaigns that no worker
// would release, so a stopping worker waits for it up to ReleaseTimeout, and a drain up to
// LeaseTTL.
func (b *Base) Whole(ctx context.Context) (context.Context, context.CancelFunc) {
	bounded, cancel := b.Bounded(context.WithoutCancel(ctx))
	if b.Draining {
		return bounded, cancel
	}
	keep := context.AfterFunc(ctx, func() { time.AfterFunc(ReleaseTimeout, cancel) })
	return bounded, func() { keep(); cancel() }
}

// Bounded returns a context for short requests, which ends after LeaseTTL: a silent connection never answers.
func (b *Base) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.Cfg.LeaseTTL)
}

// Across reports whether all projections here are across campaigns, so no campaign has work for them.
func (b *Base) Across() bool {
	return len(b.Projections) > 0 &&
		!slices.ContainsFunc(b.Projections, func(k *Projection) bool { return !k.Described.Across() })
}

// Backoff returns the wait after a failure of the infrastructure: full jitter, up to 5 seconds.
func (b *Base) Backoff(failures int) time.Duration {
	limit := min(50*time.Millisecond<<min(failures, 10), 5*time.Second)
	return time.Millisecond + time.Duration(rand.Int64N(int64(limit)))
}

// Traced starts a span for a part of a rebuild.
func (b *Base) Traced(ctx context.Context, what string, k *Projection) (context.Context, *tracing.Span) {
	if b.Cfg.TracerProvider == nil {
		return ctx, nil
	}
	return tracing.New(b.Cfg.TracerProvider, what+" "+k.Described.Name, trace.SpanKindInternal,
		attribute.String("tidemark.consumer_group", b.Cfg.ConsumerGroup),
		attribute.String("tidemark.projection", k.Described.Name),
		attribute.Int("tidemark.projection_version", k.Described.Version)).Start(ctx)
}

// ReleaseTimeout bounds the release of leases when work is dropped or the projector stops.
const ReleaseTimeout = 5 * time.Second

// Grace is the time that a handler may take to return after its timeout, before it is abandoned.
const Grace = time.Second

// promises holds the longest time that each loop may take for one round.
type promises struct {
	Around time.Duration // the dispatcher: three requests, each bounded by LeaseTTL, and a wait
	// a worker, from one transaction or projection call to the next: the queued statements of all
	// projections, and the request that ends the transaction
	Step time.Duration
	Kept time.Duration // lease renewal
}

// Bounds computes the promises from the settings, doubled for safety.
func (b *Base) Bounds() promises {
	return promises{
		Around: 6*b.Cfg.LeaseTTL + 4*b.Cfg.PollInterval,
		Step:   2 * (time.Duration(1+len(b.Projections))*(b.Longest+Grace) + b.Cfg.LeaseTTL + 2*ReleaseTimeout),
		Kept:   2*b.Cfg.LeaseTTL + 4*ReleaseTimeout,
	}
}

// Settings is a complete Config. New converts one into the other, so the fields are the same.
type Settings struct {
	Pool                *pgxpool.Pool
	Projections         []projection.Projection
	ConsumerGroup       string
	Schema              string
	Catalogue           *catalogue.Catalogue
	Archive             event.Archive
	Logger              *slog.Logger
	Registerer          prometheus.Registerer
	TracerProvider      trace.TracerProvider
	PollInterval        time.Duration
	ClaimCampaigns      int
	GroupEvents         int
	GroupBytes          int64
	LeaseTTL            time.Duration
	Concurrency         int
	NoListen            bool
	ManualRebuilds      bool
	OwnTablesOnly       bool
	NoFunctions         bool
	OnFailure           projection.Policy
	FailureLogRetention time.Duration
	ApplyTimeout        time.Duration
	ShutdownTimeout     time.Duration
	GapRate             int
	Proof               bool
	Mode                projection.Mode
	InlineBestEffort    bool
	OnStep              func(kind.Step)
}

package registry

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/pulse"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/tracing"
)

// Base is what all parts of a projector share: its configuration, the projections it has code of, and what the registry
// said of them when it was read last.
type Base struct {
	Cfg         Settings
	Projections []*Projection // with the tables that are read
	Sets        []*Projection // with each set of tables that they may have
	Seen        atomic.Pointer[View]
	Metrics     *Metrics
	Keeper      lease.Keeper
	Host        string
	SearchPath  string
	Longest     time.Duration // timeout of any projection and event type
	Promises    promises
	Pulse       pulse.Pulse
	Tracer      *tracing.Tracer      // nil: no traces
	Mode        pgx.QueryExecMode    // of the pool's connections
	Streams     bool                 // statements are prepared and stay so: not through PgBouncer
	Notice      pgconn.NoticeHandler // of the pool's connections
	Applied     atomic.Int64         // events
	Draining    bool                 // Drain, not Run
	Entered     atomic.Bool          // the registry knows its projections
}

// Whole is for claims. One that is cut off may still lease campaigns, which no worker would give
// back. So a worker that stops waits for the answer as long as for leases to be given back, and a
// drain as long as it takes.
func (b *Base) Whole(ctx context.Context) (context.Context, context.CancelFunc) {
	bounded, cancel := b.Bounded(context.WithoutCancel(ctx))
	if b.Draining {
		return bounded, cancel
	}
	keep := context.AfterFunc(ctx, func() { time.AfterFunc(ReleaseTimeout, cancel) })
	return bounded, func() { keep(); cancel() }
}

// Bounded is for short requests: no answer to them is worth more time than a lease lives, and a
// connection that fell silent gives none.
func (b *Base) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.Cfg.LeaseTTL)
}

// Backoff is the wait before going on after a failure of the infrastructure: full jitter, up to 5 seconds.
func (b *Base) Backoff(failures int) time.Duration {
	limit := min(50*time.Millisecond<<min(failures, 10), 5*time.Second)
	return time.Millisecond + time.Duration(rand.Int64N(int64(limit)))
}

// Traced makes a span of a part of a rebuild.
func (b *Base) Traced(ctx context.Context, what string, k *Projection) (context.Context, *tracing.Span) {
	if b.Cfg.TracerProvider == nil {
		return ctx, nil
	}
	return tracing.New(b.Cfg.TracerProvider, what+" "+k.Described.Name, trace.SpanKindInternal,
		attribute.String("tidemark.consumer_group", b.Cfg.ConsumerGroup),
		attribute.String("tidemark.projection", k.Described.Name),
		attribute.Int("tidemark.projection_version", k.Described.Version)).Start(ctx)
}

// ReleaseTimeout bounds the giving back of leases when work is dropped or the projector stops.
const ReleaseTimeout = 5 * time.Second

// Grace is how long a handler that has been told that its time is up may take to return, before it is abandoned.
const Grace = time.Second

// promises is by when loops are back.
type promises struct {
	Around time.Duration // of the dispatcher: three requests, each bounded by the life of a lease, and a wait
	// of a worker, from one transaction or call of a projection to the next: what all projections have
	// queued, and the request that ends the transaction
	Step time.Duration
	Kept time.Duration // of what renews leases
}

// Bounds makes the promises from the settings, with as much again to spare.
func (b *Base) Bounds() promises {
	return promises{
		Around: 6*b.Cfg.LeaseTTL + 4*b.Cfg.PollInterval,
		Step:   2 * (time.Duration(1+len(b.Projections))*(b.Longest+Grace) + b.Cfg.LeaseTTL + 2*ReleaseTimeout),
		Kept:   2*b.Cfg.LeaseTTL + 4*ReleaseTimeout,
	}
}

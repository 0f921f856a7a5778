package projector

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/pulse"
	"github.com/tidemark-go/tidemark/internal/tracing"
	"github.com/tidemark-go/tidemark/pkg/lease"
)

// base is what all parts of a projector share: its configuration, the projections it has code of, and what the registry
// said of them when it was read last.
type base struct {
	cfg         settings
	projections []*known // with the tables that are read
	sets        []*known // with each set of tables that they may have
	seen        atomic.Pointer[view]
	metrics     *metrics
	keeper      lease.Keeper
	host        string
	searchPath  string
	longest     time.Duration // timeout of any projection and event type
	promises    promises
	pulse       pulse.Pulse
	tracer      *tracing.Tracer      // nil: nobody follows traces
	mode        pgx.QueryExecMode    // of the pool's connections
	streams     bool                 // statements are prepared and stay so: not through PgBouncer
	notice      pgconn.NoticeHandler // of the pool's connections
	applied     atomic.Int64         // events
	draining    bool                 // Drain, not Run
	entered     atomic.Bool          // the registry knows its projections
}

// whole is for claims, and for the names that a shadow writes down before it tries. One that is cut
// off may still lease campaigns, which nobody would give back: they would wait until the leases
// expire; or leave a name, which would look like a death. So whoever is stopped waits for the answer,
// for as long as for leases to be given back; a drain that fails, for as long as it takes.
func (b *base) whole(ctx context.Context) (context.Context, context.CancelFunc) {
	bounded, cancel := b.bounded(context.WithoutCancel(ctx))
	if b.draining {
		return bounded, cancel
	}
	keep := context.AfterFunc(ctx, func() { time.AfterFunc(releaseTimeout, cancel) })
	return bounded, func() { keep(); cancel() }
}

// bounded is for short requests: no answer to them is worth more time than a lease lives, and a
// connection that fell silent gives none.
func (b *base) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.cfg.LeaseTTL)
}

// backoff is the wait before going on after a failure of the infrastructure: full jitter, up to 5 seconds.
func (b *base) backoff(failures int) time.Duration {
	limit := min(50*time.Millisecond<<min(failures, 10), 5*time.Second)
	return time.Millisecond + time.Duration(rand.Int64N(int64(limit)))
}

// traced makes a span of a part of a rebuild.
func (b *base) traced(ctx context.Context, what string, k *known) (context.Context, *tracing.Span) {
	if b.cfg.TracerProvider == nil {
		return ctx, nil
	}
	return tracing.New(b.cfg.TracerProvider, what+" "+k.spec.Name, trace.SpanKindInternal, attribute.String("tidemark.consumer_group", b.cfg.ConsumerGroup), attribute.String("tidemark.projection", k.spec.Name),
		attribute.Int("tidemark.projection_version", k.spec.Version)).Start(ctx)
}

// releaseTimeout bounds the giving back of leases when work is dropped or the projector stops.
const releaseTimeout = 5 * time.Second

// grace is how long a handler that has been told that its time is up may take to return, before it is abandoned.
const grace = time.Second

// promises is by when loops are back.
type promises struct {
	around time.Duration // of the dispatcher: three requests, each bounded by the life of a lease, and a wait
	step   time.Duration // of a worker, from one transaction or call of a projection to the next: what all projections have queued, and the request that ends the transaction
	kept   time.Duration // of what renews leases
}

// bounds makes the promises from the settings, with as much again to spare.
func (b *base) bounds() promises {
	return promises{
		around: 6*b.cfg.LeaseTTL + 4*b.cfg.PollInterval,
		step:   2 * (time.Duration(1+len(b.projections))*(b.longest+grace) + b.cfg.LeaseTTL + 2*releaseTimeout),
		kept:   2*b.cfg.LeaseTTL + 4*releaseTimeout,
	}
}

package projector

import (
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/pulse"
	"github.com/tidemark-go/tidemark/internal/tracing"
	"github.com/tidemark-go/tidemark/pkg/lease"
)

// base is what all parts of a projector share: its configuration, the projections it has code of, and what the registry
// said of them when it was read last.
type base struct {
	cfg         Config
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

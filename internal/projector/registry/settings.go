package registry

import (
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Settings is a complete Config. New converts one into the other, so the fields are the same.
type Settings struct {
	Pool                *pgxpool.Pool
	Projections         []kind.Projection
	ConsumerGroup       string
	Schema              string
	Catalogue           *journal.Catalogue
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
	OnFailure           kind.Policy
	FailureLogRetention time.Duration
	ApplyTimeout        time.Duration
	ShutdownTimeout     time.Duration
	GapRate             int
	Proof               bool
	Mode                kind.Mode
	InlineBestEffort    bool
	OnStep              func(kind.Step)
}

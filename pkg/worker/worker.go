// Package worker runs a program's own projections with everything the stock worker has: settings,
// log, health, metrics, pages, API, publishers and the commands projection verify and campaign
// as-of, diff and why.
//
//	func main() {
//		os.Exit(worker.Main(worker.Options{
//			Projections: []projection.Projection{sessions()},
//			Sinks:       []publisher.Kind{webhook.Kind()},
//		}))
//	}
//
// [Main] is a whole command. [New] and [Worker.Run] run the same worker inside another program.
// Each sink is a package in pkg/sink, so a program links only the broker clients it uses.
//
// Stability: as of version 1, no field changes its meaning, and Options may get fields. Settings and their
// defaults may change with a minor version, and the change log says so.
package worker

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/app"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Options is what a program adds to the stock worker. All fields are optional.
type Options struct {
	// Name is the command's name in help and errors. Default "worker".
	Name string

	// Short describes the command in one line.
	Short string

	// Projections are applied in addition to the SQL files of TIDEMARK_PROJECTIONS_DIR.
	Projections []projection.Projection

	// Catalogue describes the events. Default: the file of TIDEMARK_CATALOGUE, if it is set.
	Catalogue *catalogue.Catalogue

	// Sinks are the kinds of sinks that TIDEMARK_PUBLISHERS and TIDEMARK_PUBLISH_URL can name, such as
	// webhook.Kind(). Only their clients are linked. Default: none.
	Sinks []publisher.Kind

	// Archives are the stores that TIDEMARK_ARCHIVE_URL can name besides folders. Default: none.
	Archives archive.Kinds

	// Settings are keyed by the names of their variables, such as "TIDEMARK_DATABASE_URL". The
	// command's flags override them, and they override the environment.
	Settings map[string]string

	// Logger receives the log. Default: standard error, by TIDEMARK_LOG_FORMAT and TIDEMARK_LOG_LEVEL.
	Logger *slog.Logger

	// BeforeConnect runs before each connection to Postgres, as [pgxpool.Config.BeforeConnect] does.
	// It may set a new token as conn.Password. Default: passwords of URLs and files, read each time.
	BeforeConnect func(ctx context.Context, conn *pgx.ConnConfig) error
}

// Main runs the worker's command and returns the exit code for [os.Exit]. It reads flags from
// [os.Args] and settings from the environment. SIGINT and SIGTERM stop the worker; a second signal
// ends the process at once.
func Main(opts Options) int { return app.Main(opts.wiring()) }

// Worker is a worker that runs inside another program.
type Worker struct{ opts app.Options }

// New returns a worker for opts.
func New(opts Options) *Worker { return &Worker{opts: opts.wiring()} }

// Run applies and publishes events until ctx is cancelled. Then it finishes or rolls back its
// current batch and returns nil. It returns an error for all wrong settings and projections
// together, or if the worker cannot go on.
//
// Without TIDEMARK_DATABASE_URL it returns an error. Only the command has --dev, with a private Postgres.
func (w *Worker) Run(ctx context.Context) error {
	settings, err := app.Settings(w.opts)
	if err != nil {
		return err
	}
	if settings.DatabaseURL == "" {
		return errors.New("TIDEMARK_DATABASE_URL is not set: set it in Options.Settings or in the environment")
	}
	logger := w.opts.Logger
	if logger == nil {
		logger = app.NewLogger(os.Stderr, settings.LogFormat, settings.LogLevel)
	}
	return app.Run(ctx, *settings, w.opts, logger)
}

func (o Options) wiring() app.Options {
	return app.Options{
		Name: o.Name, Short: o.Short, Projections: o.Projections, Catalogue: o.Catalogue, Sinks: o.Sinks,
		Archives: o.Archives, Settings: o.Settings, Logger: o.Logger, BeforeConnect: o.BeforeConnect,
	}
}

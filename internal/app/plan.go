package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/publishing"
	"github.com/tidemark-go/tidemark/internal/retention"
	"github.com/tidemark-go/tidemark/internal/store/copies"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/verification"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// plan is what a worker's settings and its program ask for.
type plan struct {
	mode        config.Mode
	projections []projection.Projection
	types       *catalogue.Catalogue
	routes      *publishing.Routes
	policies    []retention.Policy
	keep        time.Duration // how long campaigns that were brought back stay
	store       archive.Store // nil: there is none
	through     event.Archive // reads the store; nil: there is none
}

// newPlan returns the plan, and all faults that need no database to be found.
func newPlan(settings config.Worker, opts Options, logger *slog.Logger) (p plan, faults error) {
	var modeErr, loadErr, routesErr, policiesErr, storeErr error
	p.mode, modeErr = settings.Outbox.Mode()
	p.projections, p.types, loadErr = load(settings, opts, p.mode.Mode)
	p.routes, routesErr = publishing.Configured(settings.Publishing, opts.Sinks, logger)
	if p.routes == nil {
		p.routes = &publishing.Routes{} // nothing is published
	}
	p.policies, p.keep, policiesErr = retain(settings)
	if p.store, storeErr = settings.Archive.Open(); p.store != nil {
		p.through = archive.NewReader(p.store, 0)
	}
	return p, errors.Join(modeErr, loadErr, routesErr, policiesErr, storeErr, config.CheckRetries(&settings))
}

// load returns the program's projections and those of the folder, and the catalogue.
func load(
	settings config.Worker, opts Options, mode projection.Mode,
) ([]projection.Projection, *catalogue.Catalogue, error) {
	code := verification.Compiled{Projections: opts.Projections, Catalogue: opts.Catalogue}
	projections, types, err := code.Load(settings.ProjectionsDir, settings.Catalogue)
	if err == nil {
		types, err = settings.WrappingKeys.Seal(types)
	}
	if err == nil && len(projections) == 0 && !publishes(settings) && mode != projection.ModeEnqueueOnly {
		err = errors.New("there is nothing to project or to publish: name a folder of SQL files with --projections-dir or " +
			"TIDEMARK_PROJECTIONS_DIR, or what to publish with TIDEMARK_PUBLISHERS")
	}
	return projections, types, err
}

// retain returns the policies by which campaigns are archived and brought back.
func retain(settings config.Worker) ([]retention.Policy, time.Duration, error) {
	switch {
	case settings.Retention == "":
		return nil, 0, nil
	case settings.Archive.URL == "":
		return nil, 0, errors.New("TIDEMARK_RETENTION names policies, but there is no archive: set TIDEMARK_ARCHIVE_URL too")
	}
	return retention.Load(settings.Retention)
}

func publishes(settings config.Worker) bool {
	return settings.Publishers != "" || settings.PublishURL != ""
}

// check returns what keeps the worker from running in its database, with the plan's faults, so that all are reported
// together.
func (w *service) check(ctx context.Context, faults error) error {
	err := migrations.Check(ctx, w.pool)
	var version *migrations.VersionError
	if errors.As(err, &version) && version.Newer() {
		w.logger.WarnContext(ctx,
			"the schema is newer than this program: migrations run beside the programs of one release before", "schema",
			version.Database, "program", version.Program)
		err = nil
	}
	if err != nil {
		return errors.Join(faults, err)
	}
	faults = errors.Join(faults, copies.Check(ctx, w.pool), feed.CheckRowSecurity(ctx, w.pool))
	if faults != nil {
		return errors.Join(faults, w.checkProjections(ctx))
	}
	return nil
}

// checkProjections checks the projections when another fault already keeps the worker from starting.
func (w *service) checkProjections(ctx context.Context) error {
	if len(w.projections) == 0 {
		return nil
	}
	p, err := projector.New(projector.Config{
		Pool: w.pool, Projections: w.projections, ConsumerGroup: w.settings.Projector.ConsumerGroup,
		Schema: w.settings.Projector.Schema, Catalogue: w.types,
	})
	if err != nil {
		return err
	}
	return p.Check(ctx)
}

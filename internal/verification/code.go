package verification

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
)

// Compiled holds what is compiled into a program, besides the files that its settings name.
type Compiled struct {
	Projections []projection.Projection
	Catalogue   *catalogue.Catalogue

	// Operators is set if others than the workers' role run the commands. Bare names then do not refer
	// to the read models' schema, unless a setting names the workers' login.
	Operators bool
}

// code is the source of projections' code for one command.
type code struct {
	compiled             Compiled
	directory, catalogue string
	wrapping             config.WrappingKeys
	archive              config.Archive
	models               string // URL of the workers' login
	set                  *config.Set
}

// bind adds the workers' settings for files.
func (c *code) bind(env *cli.Env, command *cobra.Command) {
	c.archive.Kinds = env.Archives
	c.set = config.NewSet(command.Flags())
	config.ModelsSetting(c.set, &c.models)
	c.set.String(&c.directory, "TIDEMARK_PROJECTIONS_DIR", "", "folder of SQL-file projections")
	c.set.String(&c.catalogue, "TIDEMARK_CATALOGUE", "", "event catalogue, a YAML file")
	config.WrappingKeySettings(c.set, &c.wrapping)
	config.ArchiveSetting(c.set, &c.archive)
}

// Load adds the projections in a folder of SQL files to the program's own, and reads a catalogue
// that replaces the program's. Either may be "". All mistakes are reported together.
func (c Compiled) Load(folder, catalogueFile string) ([]projection.Projection, *catalogue.Catalogue, error) {
	projections, types := slices.Clone(c.Projections), c.Catalogue
	var errs []error
	if folder != "" {
		files, err := sqlfile.LoadDir(os.DirFS(folder))
		if err != nil {
			errs = append(errs, fmt.Errorf("TIDEMARK_PROJECTIONS_DIR: %w", err))
		}
		projections = append(projections, files...)
	}
	if catalogueFile != "" {
		var err error
		if types, err = yamlfile.Load(os.DirFS(filepath.Dir(catalogueFile)),
			filepath.Base(catalogueFile)); err != nil {
			errs = append(errs, fmt.Errorf("TIDEMARK_CATALOGUE: %w", err))
		}
	}
	return projections, types, errors.Join(errs...)
}

// load calls Load with the command's settings, which must yield some projection.
func (c *code) load() ([]projection.Projection, *catalogue.Catalogue, error) {
	err := c.set.Finish()
	var projections []projection.Projection
	var types *catalogue.Catalogue
	if err == nil {
		projections, types, err = c.compiled.Load(c.directory, c.catalogue)
	}
	if err == nil {
		types, err = c.wrapping.Seal(types)
	}
	switch {
	case err != nil:
		return nil, nil, &cli.UsageError{Err: err}
	case len(projections) == 0:
		return nil, nil,
			cli.Usagef("where is the code? Name the folder of SQL files that workers read with --projections-dir or " +
				"TIDEMARK_PROJECTIONS_DIR. Projections in Go are in their worker's program, which has this command too: " +
				"PROGRAM projection verify NAME, PROGRAM campaign as-of|diff|why")
	}
	return projections, types, nil
}

var errNotHere = errors.New("no such projection is registered with its code in this program")

// with calls work for each registered projection that choose wants and whose code is here, with a
// projector of all its versions here. Its sessions are the workers', because the code is theirs, and so
// are the tables.
func (c *code) with(
	ctx context.Context, env *cli.Env, pool *pgxpool.Pool, choose func(rebuild.Registered) bool,
	work func(*projector.Projector, rebuild.Registered) error,
) error {
	projections, types, err := c.load()
	if err != nil {
		return err
	}
	return env.WithModels(ctx, c.models, pool, func(models *pgxpool.Pool) error {
		return c.within(ctx, models, projections, types, choose, work)
	})
}

func (c *code) within(
	ctx context.Context, pool *pgxpool.Pool, projections []projection.Projection, types *catalogue.Catalogue,
	choose func(rebuild.Registered) bool, work func(*projector.Projector, rebuild.Registered) error,
) error {
	through, err := c.archive.Reader()
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	all, err := rebuild.Projections(ctx, pool)
	if err != nil {
		return err
	}
	byName, schema := map[string][]projection.Projection{}, map[string]string{}
	for _, p := range projections {
		name := p.Spec().Name
		byName[name] = append(byName[name], p)
	}
	for _, r := range all {
		schema[r.Name] = r.Schema
	}
	found := false
	for _, r := range all {
		name := registry.ProjectionOf(r.Name)
		if byName[name] == nil || !choose(r) {
			continue
		}
		found = true
		if err := registry.Readable(ctx, pool, r.Schema, r.Tables); err != nil {
			return err
		}
		p, err := projector.New(projector.Config{
			Pool: pool, Projections: byName[name], ConsumerGroup: r.Group,
			Schema: schema[name], Catalogue: types, Archive: through,
			OwnTablesOnly: c.compiled.Operators && c.models == "",
		})
		if err != nil {
			return err
		}
		if err := work(p, r); err != nil {
			return err
		}
	}
	if !found {
		return cli.Hint(fmt.Errorf("%w: registered are %s; this program has %s. Projections in Go are in their worker's "+
			"program, which has this command too", errNotHere, list(slices.Sorted(maps.Keys(schema))),
			list(slices.Sorted(maps.Keys(byName)))), "tidemark projection list")
	}
	return nil
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func explain(err error) error {
	switch {
	case errors.Is(err, registry.ErrRegistered):
		return cli.Hint(err, "tidemark projection list")
	case errors.Is(err, event.ErrNotFound):
		return cli.Hint(err, "tidemark events query --help")
	}
	return err
}

// campaignIDs completes campaigns in the shell.
func campaignIDs(ctx context.Context, pool *pgxpool.Pool, prefix string) ([]string, error) {
	return feed.Campaigns(ctx, pool, prefix, "", 50)
}

// ProjectionNames completes projections in the shell. It reads only the registry, because the view also
// counts failed campaigns.
func ProjectionNames(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	all, err := rebuild.Projections(ctx, pool)
	return slice.Of(all, func(p rebuild.Registered) string { return p.Name }), err
}

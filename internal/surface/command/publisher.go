package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/publishing"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// destinations are the topics and publishers of a worker's settings.
type destinations struct {
	publishing config.Publishing
	catalogue  string
	set        *config.Set
	sinks      []publisher.Kind
}

func (d *destinations) bind(flags *pflag.FlagSet, sinks []publisher.Kind) {
	d.sinks = sinks
	d.set = config.NewSet(flags)
	config.PublishingSettings(d.set, &d.publishing)
	d.set.String(&d.catalogue, "TIDEMARK_CATALOGUE", "", "event catalogue, a YAML file")
}

// open reads the settings and calls work. Sinks have not connected yet.
func (d *destinations) open(env *cli.Env, work func(*publishing.Routes, *journal.Catalogue) error) (err error) {
	if err := d.set.Finish(); err != nil {
		return &cli.UsageError{Err: err}
	}
	var catalogue *journal.Catalogue
	if d.catalogue != "" {
		if catalogue, err = journal.LoadCatalogue(os.DirFS(filepath.Dir(d.catalogue)),
			filepath.Base(d.catalogue)); err != nil {
			return &cli.UsageError{Err: fmt.Errorf("TIDEMARK_CATALOGUE: %w", err)}
		}
	}
	routes, err := publishing.Configured(d.publishing, d.sinks, env.Logger)
	if err == nil && routes == nil {
		err = errors.New("which sinks are there? Name the file that workers read with --publishers or " +
			"TIDEMARK_PUBLISHERS, or a URL with TIDEMARK_PUBLISH_URL")
	}
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	defer func() { err = errors.Join(err, routes.Close()) }()
	return work(routes, catalogue)
}

// testSendCommand sends with the publishers of a worker's settings.
func testSendCommand(env *cli.Env, sinks []publisher.Kind) extra {
	var d destinations
	return extra{
		flags: func(flags *pflag.FlagSet) { d.bind(flags, sinks) },
		open: func(work func(actsOn) error) error {
			return d.open(env, func(routes *publishing.Routes, catalogue *journal.Catalogue) error {
				return work(func(pool *pgxpool.Pool) (*admin.Acts, error) {
					return admin.New(admin.Config{
						Pool: pool, Timeout: -1, Publishers: routes.Publishers, Topics: routes.Topics, Catalogue: catalogue,
					})
				})
			})
		},
	}
}

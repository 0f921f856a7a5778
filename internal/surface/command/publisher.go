package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/publishing"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

func newPublisher(env *cli.Env, sinks []publisher.Kind) *cobra.Command {
	noun := cli.Noun("publisher", "See, stop, move and try what is published to brokers, webhooks, files",
		newView(env, "listPublishers"), newView(env, "showPublisher"), newView(env, "listGhosts"),
		newAct(env, "pausePublisher"),
		newAct(env, "resumePublisher"), newAct(env, "resetPublisher"),
		newParked(env), newTestSend(env, sinks), newAct(env, "republish"), newView(env, "listPublisherLog"),
	)
	noun.Long = `A publisher is a sink with a name. Each pair of a topic and a publisher has its own
position in the journal, its own status and its own parked events: events that the sink has refused.
Commands name the publisher, and mean all of its topics unless --topic says which. What they do is kept
in the log, with who and why.`
	return noun
}

func publisherNames(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	return keyParts(ctx, pool, func(k publications.Key) string { return k.Publisher })
}

func topicNames(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	return keyParts(ctx, pool, func(k publications.Key) string { return k.Topic })
}

func keyParts(ctx context.Context, pool *pgxpool.Pool, part func(publications.Key) string) ([]string, error) {
	list, err := publications.List(ctx, pool, publications.Key{})
	var names []string
	for _, p := range list {
		names = append(names, part(p.Key))
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// parkedCampaigns offers campaigns in which something was refused.
func parkedCampaigns(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	list, err := publications.ListParked(ctx, pool, publications.ParkedFilter{Limit: completions})
	var ids []string
	for _, p := range list {
		ids = append(ids, p.CampaignID)
	}
	slices.Sort(ids)
	return slices.Compact(ids), err
}

// destinations is what is published where, by the settings of a worker.
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

// open reads the settings and calls work with what they say. No sink has connected by then.
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

func newTestSend(env *cli.Env, sinks []publisher.Kind) *cobra.Command {
	var d destinations
	return newActAnd(env, &extra{
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
	}, "testSend")
}

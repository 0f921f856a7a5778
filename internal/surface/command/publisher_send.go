package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

// testSent is an event that a sink has taken or, in a dry run, would get.
type testSent struct {
	publications.Key
	MadeUp bool
	Event  journal.Event
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
	d.set.String(&d.catalogue, "catalogue", "TIDEMARK_CATALOGUE", "", "event catalogue, a YAML file")
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

// testSend is one event to be sent.
type testSend struct {
	destinations
	topic, campaign string
	seq             int64
	act             cli.Act
	asJSON          bool
}

func newTestSend(env *cli.Env, sinks []publisher.Kind) *cobra.Command {
	var s testSend
	command := &cobra.Command{
		Use:   "test-send PUBLISHER",
		Short: "Send one event to a publisher's sink: one that is made up and says so, or one of the journal",
		Long: `Send one event to a publisher's sink, from here, with the settings and in the format of the
workers: it shows whether the sink can be reached and takes what it gets. The event is made up: its type
is tidemark.test, its campaign tidemark-test, its position 0. With --campaign and --seq it is one of the
journal, with the id it has. It is sent once, and positions stay as they are.

tidemark knows all sinks of the stock worker. maintenance links no client of a broker: it knows files, logs,
Postgres and webhooks. A program of your own with sinks of its own has to try them itself.`,
		Example: `  tidemark publisher test-send archive --publishers publishers.yaml
  tidemark publisher test-send archive --campaign oak --seq 2 --reason 'does it take large ones now?'`,
		Args: oneName("publisher"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (s.campaign == "") != (s.seq == 0) || s.seq < 0 {
				return cli.Usagef("which event? --campaign and --seq name one of the journal; without them it is made up")
			}
			return s.open(env, func(routes *publishing.Routes, catalogue *journal.Catalogue) error {
				to, err := routes.Publisher(args[0])
				if err != nil {
					return err
				}
				topic, err := s.topicOf(to)
				if err != nil {
					return err
				}
				return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
					return s.run(ctx, env, pool, to, topic, catalogue)
				})
			})
		},
	}
	s.bind(command.Flags(), sinks)
	s.act.BindOne(command.Flags())
	flags := command.Flags()
	flags.BoolVar(&s.act.DryRun, "dry-run", false, "show what would be sent, and send nothing")
	flags.StringVar(&s.topic, "topic", "", "as an event of this topic (default the publisher's first)")
	flags.StringVar(&s.campaign, "campaign", "", "with --seq: the event to send")
	flags.Int64Var(&s.seq, "seq", 0, "with --campaign: the event to send")
	flags.BoolVar(&s.asJSON, "json", false, "write JSON")
	command.ValidArgsFunction = env.CompleteOne(publisherNames)
	cli.CompleteFlag(command, "topic", env.Complete(topicNames))
	cli.CompleteFlag(command, "campaign", env.Complete(campaignIDs))
	return command
}

func (s *testSend) topicOf(to publisher.Publisher) (string, error) {
	switch {
	case s.topic == "":
		return to.Topics[0], nil
	case !slices.Contains(to.Topics, s.topic):
		return "", cli.Usagef("--topic %q: publisher %q has %s", s.topic, to.Name, strings.Join(to.Topics, ", "))
	}
	return s.topic, nil
}

func (s *testSend) run(
	ctx context.Context, env *cli.Env, pool *pgxpool.Pool, to publisher.Publisher, topic string,
	catalogue *journal.Catalogue,
) error {
	event, err := s.event(ctx, pool, topic, catalogue)
	if err != nil {
		return err
	}
	if !s.act.DryRun {
		if err := admin.On(pool).SendTo(ctx, by(s.act), to, event); err != nil {
			return err
		}
	}
	if s.asJSON {
		return printAct(env, admin.ActTestSend, s.act.DryRun,
			testSent{publications.Key{Topic: topic, Publisher: to.Name}, s.campaign == "", event.Event})
	}
	if s.act.DryRun {
		env.Note("Event %s, %s, would be sent to %s; nothing was sent.", event.ID, event.Type, to.Name)
		return nil
	}
	env.Note("Event %s, %s, was sent, and %s has taken it.", event.ID, event.Type, to.Name)
	return nil
}

func (s *testSend) event(
	ctx context.Context, pool *pgxpool.Pool, topic string, catalogue *journal.Catalogue,
) (publisher.Event, error) {
	if s.campaign == "" {
		return publisher.TestEvent(topic, time.Now().UTC())
	}
	event, err := journal.Get(ctx, pool, s.campaign, s.seq)
	if err == nil && catalogue != nil {
		event, err = catalogue.Current(event)
	}
	if errors.Is(err, journal.ErrNotFound) {
		err = cli.Hint(err, "tidemark campaign show %s", cli.Quote(s.campaign))
	}
	return publisher.Event{Event: event, Topic: topic}, err
}

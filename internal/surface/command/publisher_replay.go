package command

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/progress"
	"github.com/tidemark-go/tidemark/internal/publishing"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// republished is what was sent again or, in a dry run, would be.
type republished struct {
	publications.Key
	CampaignID string
	From       int64
	Through    int64 // the last seq that is done; From - 1: none
	Events     int64
	Complete   bool
}

// sliceReplay is a slice of a campaign to be sent again.
type sliceReplay struct {
	destinations
	topic, to string
	request   publisher.ReplayRequest
	act       cli.Act
	asJSON    bool
}

func newPublisherReplay(env *cli.Env, sinks []publisher.Kind) *cobra.Command {
	var r sliceReplay
	command := &cobra.Command{
		Use:   "replay",
		Short: "Send a slice of a campaign again, to any publisher's sink",
		Long: `Send a slice of a campaign again, from here, to any publisher's sink: to hand a campaign over to
another consumer, or to give one back what it has lost. Events come in order, with the ids they had, at
least once; those that the topic does not have are left out. The publisher's pairs stay where they are,
and go on beside it. It ends at what is committed when it starts, or at --to-seq. While the sink fails it
is tried again, ten times in a row; an event that the sink refuses ends it, and it says from where on to
go on. Beyond 100 events it asks.`,
		Example: `  tidemark publisher replay --topic orders --campaign oak --from 1 --to archive --dry-run
  tidemark publisher replay --topic orders --campaign oak --from 40 --to-seq 60 --to archive --reason 'lost'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.check(cmd.Flags().Changed("to-seq")); err != nil {
				return err
			}
			return r.open(env, func(routes *publishing.Routes, catalogue *journal.Catalogue) (err error) {
				if r.request.Topic, err = routes.Topic(r.topic); err != nil {
					return err
				}
				if r.request.To, err = routes.Publisher(r.to); err != nil {
					return err
				}
				r.request.Catalogue = catalogue
				return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
					return r.run(ctx, env, pool)
				})
			})
		},
	}
	r.bind(command.Flags(), sinks)
	r.act.BindMany(command.Flags())
	flags := command.Flags()
	flags.StringVar(&r.topic, "topic", "", "the topic whose events are sent, and under which")
	flags.StringVar(&r.request.CampaignID, "campaign", "", "the campaign")
	flags.Int64Var(&r.request.From, "from", 0, "the first seq; the first one is 1")
	flags.Int64Var(&r.request.Until, "to-seq", 0, "the last seq (default what is committed by now)")
	flags.StringVar(&r.to, "to", "", "the publisher to whose sink they are sent")
	flags.BoolVar(&r.asJSON, "json", false, "write JSON")
	cli.CompleteFlag(command, "topic", env.Complete(topicNames))
	cli.CompleteFlag(command, "campaign", env.Complete(campaignIDs))
	cli.CompleteFlag(command, "to", env.Complete(publisherNames))
	return command
}

func (r *sliceReplay) check(until bool) error {
	switch {
	case r.topic == "" || r.request.CampaignID == "" || r.to == "":
		return cli.Usagef("replay what, to whom? Name --topic, --campaign, --from and --to")
	case r.request.From < 1:
		return cli.Usagef("--from %d: the first one is 1", r.request.From)
	case until && r.request.Until < r.request.From:
		return cli.Usagef("--to-seq %d: it is before --from %d", r.request.Until, r.request.From)
	}
	return nil
}

func (r *sliceReplay) run(ctx context.Context, env *cli.Env, pool *pgxpool.Pool) error {
	count := r.request
	count.DryRun = true
	expected, err := publisher.Replay(ctx, pool, count, publisherAct(r.act))
	if err != nil {
		return err
	}
	if expected.Through < r.request.From {
		err := fmt.Errorf("campaign %q has no event from seq %d on", r.request.CampaignID, r.request.From)
		return cli.Hint(err, "tidemark campaign show %s", cli.Quote(r.request.CampaignID))
	}
	if r.act.DryRun {
		return r.tell(env, expected, nil)
	}
	if expected.Sent > 0 {
		what := fmt.Sprintf("send %s again to %s", events(expected.Sent), r.to)
		if err := env.Confirm(ctx, cli.Confirmation{
			What: what, Type: fmt.Sprint(expected.Sent),
			Yes: r.act.Yes,
		}); err != nil {
			return err
		}
	}
	r.request.Until = expected.Through // no more than was counted
	meter := progress.New(env.Err, "events sent", expected.Sent)
	r.request.Progress = func(_, sent int64) { meter.Set(sent, progress.Unknown) }
	done, err := admin.On(pool).Republish(ctx, by(r.act), r.request)
	return r.tell(env, done, err)
}

func (r *sliceReplay) tell(env *cli.Env, done publisher.Replayed, failure error) error {
	if r.asJSON {
		err := printAct(env, admin.ActRepublish, r.act.DryRun, republished{
			publications.Key{Topic: r.topic, Publisher: r.to},
			r.request.CampaignID, r.request.From, done.Through, done.Sent,
			failure == nil && !r.act.DryRun,
		})
		if err != nil {
			return err
		}
	} else if r.act.DryRun {
		env.Note("%s, up to seq %d, would be sent to %s; nothing was sent.", events(done.Sent), done.Through, r.to)
	} else {
		env.Note("%s, up to seq %d, sent to %s.", events(done.Sent), done.Through, r.to)
	}
	if failure == nil {
		return nil
	}
	if done.Sent > 0 {
		failure = cli.Exitf(cli.ExitPartial, "%w", failure)
	}
	return cli.Hint(failure, "tidemark publisher replay --topic %s --campaign %s --from %d --to %s",
		cli.Quote(r.topic), cli.Quote(r.request.CampaignID), done.Through+1, cli.Quote(r.to))
}

package command

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// pausedPairs is the pairs that an act changed.
type pausedPairs struct {
	For   string // how long a pause lasts, a Go duration; "": until it is resumed
	Pairs []publications.Key
}

func newPublisherPause(env *cli.Env) *cobra.Command {
	var lasts time.Duration
	command := onPublisher{
		kind: admin.ActPausePublisher, done: "paused",
		able: func(p publications.Publication) bool { return p.Status != "FAILED" },
		do: func(acts *admin.Acts, ctx context.Context, by admin.Request, keys []publications.Key) error {
			return acts.PausePublishers(ctx, by, keys, lasts)
		},
		lasts: &lasts,
		next: func(name string) string {
			until := "until it is resumed"
			if lasts > 0 {
				until = "for " + cli.Age(lasts)
			}
			return until + "; to go on: tidemark publisher resume " + name
		},
	}.command(env, &cobra.Command{
		Use:   "pause PUBLISHER",
		Short: "Stop a publisher until it is resumed, or for a time",
		Long: `Stop a publisher until it is resumed, or for a time. Workers notice within a second; a batch
under way is finished. Nothing is lost: it goes on where it was. Paused again, it gets the new reason and
the new end. Pairs that have failed stay as they are.`,
		Example: `  tidemark publisher pause archive --reason 'the broker moves'
  tidemark publisher pause archive --topic orders --for 2h --reason 'the broker moves'`,
	})
	cli.BindDuration(command.Flags(), &lasts, "for", "how long, such as 90s, 2h or 7d (default until it is resumed)")
	return command
}

func newPublisherResume(env *cli.Env) *cobra.Command {
	return onPublisher{
		kind: admin.ActResumePublisher, done: "resumed",
		able: func(p publications.Publication) bool { return p.Status == "PAUSED" },
		do:   (*admin.Acts).ResumePublishers,
		next: func(string) string { return "tidemark publisher list shows it catch up" },
	}.command(env, &cobra.Command{
		Use:     "resume PUBLISHER",
		Short:   "Have a publisher that was paused go on",
		Example: `  tidemark publisher resume archive --reason 'the broker has moved'`,
	})
}

// onPublisher is an act on those pairs of a publisher that are able to be acted on. If none is, the act says why not.
type onPublisher struct {
	kind  admin.Kind
	done  string
	able  func(publications.Publication) bool
	do    func(*admin.Acts, context.Context, admin.Request, []publications.Key) error
	next  func(name string) string // what to tell of it, and to type next
	lasts *time.Duration
}

func (o onPublisher) command(env *cli.Env, command *cobra.Command) *cobra.Command {
	var (
		choice pairChoice
		act    cli.Act
		asJSON bool
	)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
			list, err := choice.find(ctx, pool, args[0])
			if err != nil {
				return err
			}
			keys := o.keys(list)
			if err := o.do(admin.On(pool), ctx, by(act), keys); err != nil {
				return err
			}
			if asJSON {
				return printAct(env, o.kind, false, o.detail(keys))
			}
			env.Note("%s %s: %s", counted(int64(len(keys)), "pair"), o.done, o.next(cli.Quote(args[0])))
			return printTopicPairs(env, keys)
		})
	}
	choice.bind(env, command)
	act.BindOne(command.Flags())
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

// keys answers the pairs that are able, or all of them, so that the act says what is wrong with them.
func (o onPublisher) keys(list []publications.Publication) []publications.Key {
	var able, all []publications.Key
	for _, p := range list {
		if all = append(all, p.Key); o.able(p) {
			able = append(able, p.Key)
		}
	}
	if len(able) > 0 {
		return able
	}
	return all
}

func (o onPublisher) detail(keys []publications.Key) pausedPairs {
	p := pausedPairs{Pairs: keys}
	if o.lasts != nil && *o.lasts > 0 {
		p.For = o.lasts.String()
	}
	return p
}

func printTopicPairs(env *cli.Env, keys []publications.Key) error {
	var rows [][]cli.Cell
	for _, k := range keys {
		rows = append(rows, []cli.Cell{cli.Text(k.Topic), cli.Text(k.Publisher)})
	}
	return env.PrintTable([]string{"TOPIC", "PUBLISHER"}, rows)
}

func events(n int64) string { return counted(n, "event") }

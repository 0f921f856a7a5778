package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newWorker(env *cli.Env) *cobra.Command {
	return cli.Noun("workers", "See workers, have one take no more campaigns, and take some again",
		newWorkerList(env), newDrain(env, drain{
			verb: "drain", short: "Have a worker finish what it has and claim no more campaigns",
			long: `Have a worker finish what it has and claim no more campaigns, until it is undrained or ends. It
notices within about a second. What it publishes goes on, and so do other workers. workers list shows when
it holds no campaign any more. OWNER is the worker's name in workers list. It asks for the worker's host.`,
			asks: true, note: "Worker %s claims no more campaigns; tidemark workers list shows when it holds none. To go " +
				"on: tidemark workers undrain %s", do: (*admin.Acts).DrainWorker,
		}), newDrain(env, drain{
			verb: "undrain", short: "Have a worker that was drained claim campaigns again",
			note: "Worker %s claims campaigns again; tidemark workers list shows how many. To stop it: tidemark workers " +
				"drain %s", do: (*admin.Acts).UndrainWorker,
		}))
}

func newWorkerList(env *cli.Env) *cobra.Command {
	var (
		group  string
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "list",
		Short: "List the workers that have a record: what they hold, what they have applied, who has drained them",
		Example: `  tidemark workers list
  tidemark workers list --group search --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				s, err := (&status.Reader{Pool: pool}).Read(ctx, status.SectionWorkers)
				if err == nil {
					err = s.Unread[status.SectionWorkers]
				}
				if err != nil {
					return err
				}
				workers := slices.DeleteFunc(s.Workers, func(w status.Worker) bool {
					return group != "" && group != w.ConsumerGroup
				})
				if asJSON {
					return env.PrintJSON(operator.All(workers))
				}
				return printWorkers(env, workers)
			})
		},
	}
	command.Flags().StringVar(&group, "group", "", "only workers of this consumer group")
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	cli.CompleteFlag(command, "group", env.Complete(groupNames))
	return command
}

func printWorkers(env *cli.Env, workers []status.Worker) error {
	if len(workers) == 0 {
		env.Note("No worker has a record: one that starts makes one, and one that stops takes it away.")
		return nil
	}
	var rows [][]cli.Cell
	for _, w := range workers {
		seen, drained := when(w.SeenAt), cli.Text("")
		if !w.Live() {
			seen.Tone = cli.Alarm
		}
		if w.DrainedBy != "" {
			drained = cli.Cell{Text: "by " + w.DrainedBy, Tone: cli.Warning}
		}
		rows = append(rows, []cli.Cell{
			cli.Text(w.Owner), cli.Text(w.ConsumerGroup), cli.Text(w.Host), cli.Number(int64(w.PID), cli.Plain),
			when(w.StartedAt), seen, cli.Number(int64(w.CampaignsHeld), cli.Plain),
			cli.Number(w.EventsApplied, cli.Plain), drained,
		})
	}
	return env.PrintTable([]string{"OWNER", "GROUP", "HOST", "PID", "STARTED", "SEEN", "HOLDS", "APPLIED", "DRAINED"},
		rows)
}

// drain is one of the two acts on a worker.
type drain struct {
	verb, short, long, note string
	asks                    bool // for the worker's host
	do                      func(*admin.Acts, context.Context, admin.Request, string) (*admin.Outcome, error)
}

func newDrain(env *cli.Env, d drain) *cobra.Command {
	var (
		act    cli.Act
		asJSON bool
	)
	command := &cobra.Command{
		Use:     d.verb + " OWNER",
		Short:   d.short,
		Long:    d.long,
		Example: "  tidemark workers " + d.verb + ` box/4711/1f0c --reason 'the machine is replaced'`,
		Args:    oneName("worker"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				request := by(act)
				if d.asks {
					host, err := hostOf(ctx, pool, args[0])
					if err != nil {
						return err
					}
					c := cli.Confirmation{
						What: "have worker " + args[0] + " of host " + host + " take no more campaigns", Type: host,
						Look: "tidemark workers list",
					}
					if request, err = typed(ctx, env, act, c); err != nil {
						return err
					}
				}
				outcome, err := d.do(admin.On(pool), ctx, request, args[0])
				switch {
				case err != nil:
					return err
				case asJSON:
					return env.PrintJSON(outcome)
				}
				env.Note(d.note, args[0], cli.Quote(args[0]))
				return nil
			})
		},
	}
	act.BindOne(command.Flags())
	if d.asks {
		command.Flags().BoolVar(&act.Yes, "yes", false, "do not ask for the worker's host")
	}
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	command.ValidArgsFunction = env.CompleteOne(ownerNames)
	return command
}

// hostOf answers the host of a worker.
func hostOf(ctx context.Context, pool *pgxpool.Pool, owner string) (string, error) {
	workers, err := lease.Workers(ctx, pool)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(workers, func(w lease.Worker) bool { return w.Owner == owner })
	if i < 0 {
		return "", fmt.Errorf("worker %q: %w", owner, admin.ErrNotFound)
	}
	return workers[i].Host, nil
}

// ownerNames offers workers to the shell.
func ownerNames(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	workers, err := lease.Workers(ctx, pool)
	var names []string
	for _, w := range workers {
		names = append(names, w.Owner)
	}
	return names, err
}

package command

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newWorker(env *cli.Env) *cobra.Command {
	return cli.Noun("workers", "See workers, have one take no more campaigns, and take some again",
		newWorkerList(env), newAct(env, "drainWorker"), newAct(env, "undrainWorker"))
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
		seen, drained := cli.When(w.SeenAt), cli.Text("")
		if !w.Live() {
			seen.Tone = cli.Alarm
		}
		if w.DrainedBy != "" {
			drained = cli.Cell{Text: "by " + w.DrainedBy, Tone: cli.Warning}
		}
		rows = append(rows, []cli.Cell{
			cli.Text(w.Owner), cli.Text(w.ConsumerGroup), cli.Text(w.Host), cli.Number(int64(w.PID), cli.Plain),
			cli.When(w.StartedAt), seen, cli.Number(int64(w.CampaignsHeld), cli.Plain),
			cli.Number(w.EventsApplied, cli.Plain), drained,
		})
	}
	return env.PrintTable([]string{"OWNER", "GROUP", "HOST", "PID", "STARTED", "SEEN", "HOLDS", "APPLIED", "DRAINED"},
		rows)
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

package command

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// defaultGroup is the consumer group of a worker that is told nothing else.
const defaultGroup = "default"

// groupState is a consumer group with its workers and pauses: its own, those of its projections and campaigns.
type groupState struct {
	outbox.Group
	Workers int
	Pauses  []pause.Pause
}

func newGroup(env *cli.Env) *cobra.Command {
	return cli.Noun("group", "See, stop, resume and remove consumer groups", newGroupList(env),
		newAct(env, "pauseGroup"), newAct(env, "resumeGroup"), newAct(env, "removeGroup"))
}

func newGroupList(env *cli.Env) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:     "list",
		Short:   "List consumer groups with their workers, and everything that is paused",
		Example: `  tidemark group list`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				groups, err := outbox.Groups(ctx, pool)
				if err != nil {
					return err
				}
				workers, err := lease.Workers(ctx, pool)
				if err != nil {
					return err
				}
				pauses, err := pause.List(ctx, pool, "")
				if err != nil {
					return err
				}
				states := groupStates(groups, workers, pauses)
				if asJSON {
					return env.PrintJSON(operator.All(states))
				}
				return printGroups(env, states, pauses)
			})
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

func groupStates(groups []outbox.Group, workers []lease.Worker, pauses []pause.Pause) (states []groupState) {
	for _, g := range groups {
		state := groupState{Group: g}
		for _, w := range workers {
			if w.ConsumerGroup == g.Name {
				state.Workers++
			}
		}
		for _, p := range pauses {
			if p.Group == g.Name {
				state.Pauses = append(state.Pauses, p)
			}
		}
		states = append(states, state)
	}
	return states
}

func printGroups(env *cli.Env, groups []groupState, pauses []pause.Pause) error {
	if len(groups) == 0 {
		env.Note("No consumer group yet: the first worker registers one.")
		return nil
	}
	var rows [][]cli.Cell
	for _, g := range groups {
		paused := pauseCell(pauses, func(t pause.Target) bool { return t == pause.Target{Group: g.Name} })
		rows = append(rows, []cli.Cell{
			cli.Text(g.Name), cli.Text(g.State), cli.Number(int64(g.Workers), cli.Plain),
			cli.When(g.RegisteredAt), paused,
		})
	}
	page := &cli.Page{Env: env}
	page.Table([]string{"GROUP", "STATE", "WORKERS", "REGISTERED", "PAUSED"}, rows)
	if len(pauses) > 0 {
		page.Heading("Paused")
		page.Table(pauseColumns(), pauseRows(pauses))
	}
	return page.Err()
}

func pauseColumns() []string {
	return []string{"GROUP", "PROJECTION", "CAMPAIGN", "SINCE", "UNTIL", "BY", "REASON"}
}

func pauseRows(pauses []pause.Pause) [][]cli.Cell {
	var rows [][]cli.Cell
	for _, p := range pauses {
		rows = append(rows, []cli.Cell{
			cli.Text(p.Group), cli.Text(p.Projection), cli.Text(p.CampaignID), cli.When(p.PausedAt), cli.When(p.ExpiresAt),
			cli.Text(p.By), cli.Text(p.Reason),
		})
	}
	return rows
}

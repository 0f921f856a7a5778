package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

func newGaps(env *cli.Env) *cobra.Command {
	noun := cli.Noun("gaps", "Find and repair campaigns that nothing would bring to their heads", newGapsDetect(env),
		newAct(env, "repairGaps"))
	noun.Long = `A gap is a campaign whose journal goes on beyond a consumer group's checkpoint while
neither the outbox nor a failed campaign says so: no worker would ever come to it. There are none unless
work items were deleted by hand, or an append did not know the group. Workers look for gaps at their
start and repair them.`
	return noun
}

func newGapsDetect(env *cli.Env) *cobra.Command {
	var (
		group  string
		asJSON bool
	)
	command := &cobra.Command{
		Use:     "detect",
		Short:   "List the gaps, of all consumer groups or of one",
		Example: `  tidemark gaps detect`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				gaps, err := detectGaps(ctx, pool, group)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(document.All(gaps))
				}
				if len(gaps) == 0 {
					env.Note("No gap.")
					return nil
				}
				if err := printGaps(env, gaps); err != nil {
					return err
				}
				env.Note("To have workers come to them: tidemark gaps repair GROUP")
				return nil
			})
		},
	}
	bindGaps(env, command, &group, &asJSON)
	return command
}

func bindGaps(env *cli.Env, command *cobra.Command, group *string, asJSON *bool) {
	command.Flags().StringVar(group, "group", "", "only gaps of this consumer group (default all)")
	command.Flags().BoolVar(asJSON, "json", false, "write JSON")
	cli.CompleteFlag(command, "group", env.Complete(groupNames))
}

// chosenGroups answers the names of all consumer groups, or the one that was chosen.
func chosenGroups(ctx context.Context, pool *pgxpool.Pool, chosen string) ([]string, error) {
	names, err := groupNames(ctx, pool, "")
	if err != nil || chosen == "" {
		return names, err
	}
	for _, name := range names {
		if name == chosen {
			return []string{name}, nil
		}
	}
	known := "none is registered yet, the first worker does that"
	if len(names) > 0 {
		known = "there are " + strings.Join(names, ", ")
	}
	return nil, cli.Hint(fmt.Errorf("no consumer group %q: %s", chosen, known), "tidemark group list")
}

func detectGaps(ctx context.Context, pool *pgxpool.Pool, group string) ([]outbox.Gap, error) {
	groups, err := chosenGroups(ctx, pool, group)
	if err != nil {
		return nil, err
	}
	var gaps []outbox.Gap
	for _, name := range groups {
		for after := ""; ; {
			found, next, err := outbox.Gaps(ctx, pool, name, after, 0)
			if err != nil {
				return nil, err
			}
			gaps = append(gaps, found...)
			if next == "" {
				break
			}
			after = next
		}
	}
	return gaps, nil
}

func printGaps(env *cli.Env, gaps []outbox.Gap) error {
	if len(gaps) == 0 {
		return nil
	}
	var rows [][]table.Cell
	for _, g := range gaps {
		rows = append(rows, []table.Cell{
			table.Text(g.Group), table.Text(g.CampaignID), table.Number(g.Checkpoint, table.Plain),
			table.Number(g.Head, table.Plain),
		})
	}
	return env.PrintTable([]string{"GROUP", "CAMPAIGN", "CHECKPOINT", "HEAD"}, rows)
}

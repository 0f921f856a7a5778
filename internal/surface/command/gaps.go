package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// repair is what became of each gap or, in a dry run, which there are.
type repair struct {
	Repaired int
	Failed   int
	Gaps     []repairedGap
}

type repairedGap struct {
	outbox.Gap
	Error error // why it was not repaired
}

func newGaps(env *cli.Env) *cobra.Command {
	noun := cli.Noun("gaps", "Find and repair campaigns that nothing would bring to their heads", newGapsDetect(env),
		newGapsRepair(env))
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
					return env.PrintJSON(operator.All(gaps))
				}
				if len(gaps) == 0 {
					env.Note("No gap.")
					return nil
				}
				if err := printGaps(env, gaps); err != nil {
					return err
				}
				env.Note("To have workers come to them: tidemark gaps repair")
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

func newGapsRepair(env *cli.Env) *cobra.Command {
	var (
		group  string
		act    cli.Act
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "repair",
		Short: "File a work item for each gap, so that workers come to it",
		Long: `File a work item for each gap, campaign by campaign: one that fails is named and does not stop
the others. Run again, it finds what is left. It asks for the number of gaps.`,
		Example: `  tidemark gaps repair --dry-run
  tidemark gaps repair --reason 'restored from a backup' --yes`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				return repairGaps(ctx, env, pool, group, act, asJSON)
			})
		},
	}
	bindGaps(env, command, &group, &asJSON)
	act.BindMany(command.Flags())
	return command
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

func repairGaps(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, group string, act cli.Act, asJSON bool) error {
	gaps, err := detectGaps(ctx, pool, group)
	if err != nil {
		return err
	}
	if act.DryRun {
		if asJSON {
			return printAct(env, admin.ActRepairGaps, true, struct{ Gaps []outbox.Gap }{gaps})
		}
		env.Note("%s would be repaired; nothing was changed.", counted(int64(len(gaps)), "gap"))
		return printGaps(env, gaps)
	}
	if len(gaps) > 0 {
		if err := env.Confirm(ctx, cli.Confirmation{
			What: "repair " + counted(int64(len(gaps)), "gap"),
			Type: fmt.Sprint(len(gaps)), Yes: act.Yes,
		}); err != nil {
			return err
		}
	}
	groups, err := chosenGroups(ctx, pool, group)
	if err != nil {
		return err
	}
	var done repair
	gaps = nil
	for _, name := range groups {
		err := admin.On(pool).RepairGaps(ctx, by(act), name, func(gap outbox.Gap, err error) {
			if err != nil {
				env.Note("%v", err)
				done.Failed++
			} else {
				gaps = append(gaps, gap)
				done.Repaired++
			}
			done.Gaps = append(done.Gaps, repairedGap{gap, err})
		})
		if err != nil {
			if ctx.Err() != nil {
				return cli.Exitf(cli.ExitPartial, "interrupted: %s repaired; the same command goes on with the others",
					counted(int64(done.Repaired), "gap"))
			}
			return err
		}
	}
	return tellRepaired(env, done, gaps, asJSON)
}

func tellRepaired(env *cli.Env, done repair, gaps []outbox.Gap, asJSON bool) error {
	var err error
	if asJSON {
		err = printAct(env, admin.ActRepairGaps, false, done)
	} else {
		env.Note("%s repaired; tidemark lag --watch shows workers come to them.", counted(int64(done.Repaired), "gap"))
		err = printGaps(env, gaps)
	}
	switch {
	case err != nil:
		return err
	case done.Failed > 0 && done.Repaired == 0:
		return fmt.Errorf("none of %d gaps was repaired", done.Failed)
	case done.Failed > 0:
		return cli.Exitf(cli.ExitPartial, "not repaired: %s; the same command tries them again",
			counted(int64(done.Failed), "gap"))
	}
	return nil
}

func printGaps(env *cli.Env, gaps []outbox.Gap) error {
	if len(gaps) == 0 {
		return nil
	}
	var rows [][]cli.Cell
	for _, g := range gaps {
		rows = append(rows, []cli.Cell{
			cli.Text(g.Group), cli.Text(g.CampaignID), cli.Number(g.Checkpoint, cli.Plain),
			cli.Number(g.Head, cli.Plain),
		})
	}
	return env.PrintTable([]string{"GROUP", "CAMPAIGN", "CHECKPOINT", "HEAD"}, rows)
}

package command

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// logFilter is what all logs can be filtered by.
type logFilter struct {
	campaign, by *string
	acts         *[]string
	before       *int64
	limit        *int
}

// logOf is a command that shows records R of a log, the newest first.
type logOf[R any] struct {
	filter  logFilter
	known   []string // acts that there are
	records string   // what it has, as in "records of"
	kinds   string   // what --act says of them
	nothing string   // what to say if there are none
	read    func(context.Context, *pgxpool.Pool) ([]R, error)
	columns []string
	rows    func([]R) [][]cli.Cell
	id      func(R) int64
}

func (l logOf[R]) command(env *cli.Env, command *cobra.Command) *cobra.Command {
	var asJSON bool
	command.Args = cli.NoArgs
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, act := range *l.filter.acts {
			if err := cli.OneOf("act", act, l.known); err != nil {
				return err
			}
		}
		if err := cli.AtLeastOne("limit", *l.filter.limit); err != nil {
			return err
		}
		if before := *l.filter.before; before < 0 {
			return cli.Usagef("--before %d: take the id of a record", before)
		}
		return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
			records, err := l.read(ctx, pool)
			if err != nil {
				return err
			}
			return l.print(env, records, asJSON)
		})
	}
	flags := command.Flags()
	flags.StringVar(l.filter.campaign, "campaign", "", "only "+l.records+" this campaign")
	flags.StringVar(l.filter.by, "by", "", "only what this operator did")
	flags.StringArrayVar(l.filter.acts, "act", nil, "only "+l.kinds+"; may be given several times")
	flags.Int64Var(l.filter.before, "before", 0, "only records before the one with this id")
	flags.IntVar(l.filter.limit, "limit", 100, "at most so many records")
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	cli.CompleteFlag(command, "campaign", env.Complete(campaignIDs))
	cli.CompleteFlag(command, "act", cli.Choices(l.known))
	return command
}

func (l logOf[R]) print(env *cli.Env, records []R, asJSON bool) error {
	if asJSON {
		return env.PrintJSON(operator.All(records))
	}
	if len(records) == 0 {
		env.Note("%s", l.nothing)
		return nil
	}
	if err := env.PrintTable(l.columns, l.rows(records)); err != nil {
		return err
	}
	if len(records) == *l.filter.limit {
		env.Note("What was before: --before %d", l.id(records[len(records)-1]))
	}
	return nil
}

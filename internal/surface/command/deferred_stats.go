package command

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newDeferredStats(env *cli.Env) *cobra.Command {
	var (
		filter pairFilter
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "stats",
		Short: "Sum up failures by projection, event type, class and message, with the oldest and the growth",
		Long: `Sum up failed and dead campaigns, or those that the flags choose: by projection, event type, class, and
by fingerprint, which is the same for messages that differ in numbers and names alone. The growth counts failed
attempts, of campaigns that have since recovered as well.`,
		Example: `  tidemark failed stats
  tidemark failed stats --projection scores --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := filter.finish(false); err != nil {
				return err
			}
			return filter.withPool(cmd.Context(), env, func(ctx context.Context, pool *pgxpool.Pool) error {
				stats, err := deferred.Stats(ctx, pool, filter.Filter)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(operator.One(stats))
				}
				return printStats(env, stats)
			})
		},
	}
	filter.bind(env, command, false)
	flags := command.Flags()
	flags.Lookup("limit").Usage = "read so many at most; 0: 100,000"
	flags.Lookup("limit").DefValue = "0"
	filter.Limit = 0
	flags.Lookup("status").Usage = "only with this status: failed, dead, rebuilding; may be given several times " +
		"(default failed and dead)"
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

func printStats(env *cli.Env, s *deferred.Statistics) error {
	if s.Failed+s.Dead+s.Rebuilding == 0 {
		env.Note("No matching failed campaigns.")
		return nil
	}
	page := &cli.Page{Env: env}
	totals := fmt.Sprintf("%d failed, %d dead", s.Failed, s.Dead)
	if s.Rebuilding > 0 {
		totals += fmt.Sprintf(", %d rebuilding", s.Rebuilding)
	}
	if s.More {
		totals = "more than looked at (--limit): " + totals
	}
	facts := []cli.Fact{{Name: "failed campaigns", Value: totals}}
	if o := s.Oldest; o != nil {
		facts = append(facts, cli.Fact{Name: "oldest", Value: fmt.Sprintf("%s of campaign %s at event %d, for %s",
			o.Projection, o.CampaignID, o.NextSeq, cli.Age(s.At.Sub(*o.FirstFailedAt)))})
	}
	facts = append(facts, cli.Fact{
		Name: "failures",
		Value: fmt.Sprintf("%d in the last hour (%d in the one before), %d in the last day (%d in the one before)",
			s.Growth.LastHour, s.Growth.HourBefore, s.Growth.LastDay, s.Growth.DayBefore),
	})
	page.Facts(facts...)
	printTallies(page, "By projection", "PROJECTION", s.Projections)
	printTallies(page, "By event type", "TYPE", s.EventTypes)
	printTallies(page, "By class", "CLASS", s.Classes)
	printTallies(page, "By message", "FINGERPRINT", s.Fingerprints)
	return page.Err()
}

func printTallies(page *cli.Page, heading, column string, tallies []deferred.Tally) {
	if len(tallies) == 0 {
		return
	}
	columns := []string{"CAMPAIGNS", "FIRST", "LAST", column}
	sampled := column == "FINGERPRINT"
	if sampled {
		columns = append(columns, "FOR EXAMPLE")
	}
	var rows [][]cli.Cell
	for _, t := range tallies {
		value := t.Value
		if value == "" {
			value = "-"
		}
		row := []cli.Cell{
			cli.Number(t.Pairs, cli.Plain), cli.Text(stamp(t.FirstFailedAt)), cli.Text(stamp(t.LastFailedAt)),
			cli.Text(value),
		}
		if sampled {
			row = append(row, cli.Text(t.Sample))
		}
		rows = append(rows, row)
	}
	page.Heading(heading)
	page.Table(columns, rows)
}

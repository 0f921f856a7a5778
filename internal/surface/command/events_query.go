package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// queriedMost is how many events are shown, unless --limit says otherwise.
const queriedMost = 100

func newEventsQuery(env *cli.Env) *cobra.Command {
	var (
		item   journal.Item
		after  int64
		limit  int
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "query",
		Short: "Show the events that have one of the types and all of the tags, as a condition selects them",
		Example: `  tidemark events query --type funds_withdrawn --tag wallet=7
  tidemark events query --tag wallet=7 --after 1200 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case after < 0:
				return cli.Usagef("--after %d: positions start at 1", after)
			case limit < 1:
				return cli.Usagef("--limit %d: it must be 1 at least", limit)
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				events, err := journal.Read(ctx, pool, journal.Query{Items: []journal.Item{item}}, after+1, limit)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(operator.All(events))
				}
				if err := printQueried(env, events); err != nil {
					return err
				}
				if len(events) == limit {
					env.Note("there may be more: --after %d", events[len(events)-1].Position)
				}
				return nil
			})
		},
	}
	flags := command.Flags()
	flags.StringArrayVar(&item.Types, "type", nil, "events of this type; given several times: of one of them")
	flags.StringArrayVar(&item.Tags, "tag", nil, "events with this tag; given several times: with all of them")
	flags.Int64Var(&after, "after", 0, "only events past this position")
	flags.IntVar(&limit, "limit", queriedMost, "at most so many events")
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

func printQueried(env *cli.Env, events []journal.Event) error {
	rows := make([][]cli.Cell, 0, len(events))
	for _, e := range events {
		rows = append(rows, []cli.Cell{
			{Text: fmt.Sprint(e.Position), Right: true},
			{Text: e.CampaignID},
			{Text: fmt.Sprint(e.Seq), Right: true},
			{Text: e.Type},
			{Text: strings.Join(e.Tags, " ")},
			{Text: cli.Stamp(&e.RecordedAt)},
		})
	}
	page := &cli.Page{Env: env}
	page.Table([]string{"POSITION", "CAMPAIGN", "SEQ", "TYPE", "TAGS", "RECORDED"}, rows)
	return page.Err()
}

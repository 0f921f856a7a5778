package command

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

// minInterval keeps a watch from being a load of its own.
const minInterval = 100 * time.Millisecond

func newLag(env *cli.Env) *cobra.Command {
	var (
		asJSON, watch bool
		interval      time.Duration
	)
	command := &cobra.Command{
		Use:   "lag",
		Short: "Show how far groups and their projections are behind the journal",
		Long: `Show how far each consumer group and each of its projections is behind the journal: events that
are appended and not applied, the campaigns they belong to, and how old the oldest is. Where there are
more than some thousand, figures are estimates, with a ~ before them. With --watch it goes on until
Ctrl-C: in place on a terminal; elsewhere as lines that begin with the time, or as one JSON document a
line.`,
		Example: `  tidemark lag
  tidemark lag --watch --interval 1s
  tidemark lag --json | jq '.items[] | select(.age_seconds > 60)'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < minInterval {
				return cli.Usagef("--interval %s: at least %s", interval, minInterval)
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				switch {
				case watch:
					return watchLag(ctx, env, pool, interval, asJSON)
				default:
					return showLag(ctx, env, pool, asJSON)
				}
			})
		},
	}
	flags := command.Flags()
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	flags.BoolVar(&watch, "watch", false, "go on until Ctrl-C")
	flags.DurationVar(&interval, "interval", 2*time.Second, "how long to wait between looks, with --watch")
	return command
}

func readLag(ctx context.Context, pool *pgxpool.Pool) (lags []outbox.Behind, err error) {
	err = session.WithoutJIT(ctx, pool, func(tx pgx.Tx) (err error) { lags, err = outbox.Lag(ctx, tx); return err })
	return lags, err
}

func showLag(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, asJSON bool) error {
	lags, err := readLag(ctx, pool)
	if err != nil {
		return err
	}
	if asJSON {
		return env.PrintJSON(document.All(lags))
	}
	if len(lags) == 0 {
		env.Note("No consumer group yet: the first worker registers one.")
		return nil
	}
	return env.PrintTable(lagColumns(), lagRows(lags))
}

func watchLag(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, interval time.Duration, asJSON bool) error {
	return env.Watch(ctx, interval, func(ctx context.Context, frame *cli.Env) error {
		lags, err := readLag(ctx, pool)
		switch {
		case err != nil:
			return err
		case asJSON:
			return frame.PrintJSONLine(document.All(lags))
		case frame.Terminal:
			return frame.PrintTable(lagColumns(), lagRows(lags))
		}
		now := table.Text(time.Now().UTC().Format(time.RFC3339))
		rows := lagRows(lags)
		for i, row := range rows {
			rows[i] = append([]table.Cell{now}, row...)
		}
		page := frame.Page()
		page.Lines(rows)
		return page.Err()
	})
}

func lagColumns() []string { return []string{"GROUP", "PROJECTION", "EVENTS", "CAMPAIGNS", "AGE"} }

func lagRows(lags []outbox.Behind) [][]table.Cell {
	var rows [][]table.Cell
	for _, b := range lags {
		projection := table.Text(b.Projection)
		if b.Projection == "" {
			projection = table.Cell{Text: "(all)", Tone: table.Faint}
		}
		age := table.Cell{Text: "-", Tone: table.Faint, Right: true}
		if b.Events > 0 {
			age = table.Cell{Text: table.Age(b.Age), Right: true}
		}
		rows = append(rows, []table.Cell{
			table.Text(b.Group), projection, table.About(b.Events, b.Estimated, table.Plain),
			table.About(b.Campaigns, b.Estimated, table.Plain), age,
		})
	}
	return rows
}

package command

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newDeferredLog(env *cli.Env) *cobra.Command {
	var f deferred.LogFilter
	command := logOf[deferred.Record]{
		filter:  logFilter{&f.CampaignID, &f.Actor, &f.Acts, &f.Before, &f.Limit},
		known:   deferred.Acts(),
		records: "records of", kinds: "records of this kind, such as failed, dead, skipped, requeued, resolved",
		nothing: "Nothing has happened, or nothing that this chooses.",
		read: func(ctx context.Context, pool *pgxpool.Pool) ([]deferred.Record, error) {
			return deferred.History(ctx, pool, f)
		},
		columns: recordColumns(), rows: recordRows,
		id: func(r deferred.Record) int64 { return r.ID },
	}.command(env, &cobra.Command{
		Use:   "log",
		Short: "Show failures and what operators did, newest first",
		Example: `  tidemark failed log --campaign oak
  tidemark failed log --act resolved --act replayed --limit 20
  tidemark failed log --before 4711 --json`,
	})
	flags := command.Flags()
	flags.StringVar(&f.Group, "group", "", "only records of this consumer group")
	flags.StringVar(&f.Projection, "projection", "", "only records of this projection")
	flags.StringVar(&f.Fingerprint, "fingerprint", "", "only failures with this fingerprint")
	cli.CompleteFlag(command, "group", env.Complete(groupNames))
	cli.CompleteFlag(command, "projection", env.Complete(projectionNames))
	return command
}

func recordColumns() []string {
	return []string{"ID", "AT", "ACT", "PROJECTION", "CAMPAIGN", "SEQ", "ATTEMPT", "BY", "WHY"}
}

func recordRows(records []deferred.Record) [][]cli.Cell {
	var rows [][]cli.Cell
	for _, r := range records {
		by, why := r.Actor, r.Reason
		if by == "" {
			by = r.Worker
		}
		if why == "" {
			why = r.Message
		}
		rows = append(rows, []cli.Cell{
			{Text: cli.Number(r.ID, cli.Plain).Text, Right: true},
			when(r.At),
			{Text: r.Act, Tone: recordTone(r.Act)},
			cli.Text(r.Projection), cli.Text(r.CampaignID),
			orDash(r.Seq), orDash(int64(r.Attempt)), cli.Text(by), cli.Text(why),
		})
	}
	return rows
}

func recordTone(act string) cli.Tone {
	switch act {
	case "dead", "crashed":
		return cli.Alarm
	case "failed", "skipped":
		return cli.Warning
	default:
		return cli.Plain
	}
}

// orDash is a cell with a number, or a dash for none.
func orDash(n int64) cli.Cell {
	if n == 0 {
		return cli.Cell{Text: "-", Right: true, Tone: cli.Faint}
	}
	return cli.Number(n, cli.Plain)
}

package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

func newOutbox(env *cli.Env) *cobra.Command {
	return cli.Noun("outbox", "Show what remains to be done, and have what failed tried again", newOutboxReport(env),
		newView(env, "listQueueEntries"), newAct(env, "requeueEvent"))
}

func newOutboxReport(env *cli.Env) *cobra.Command {
	var (
		asJSON bool
		filter outbox.Filter
	)
	command := &cobra.Command{
		Use:   "report",
		Short: "Count what remains to be done, by status, and name the oldest entry a worker could take",
		Long: `Count what remains to be done, by status, and name the oldest entry a worker could take now, for
each consumer group. With --status or --limit the entries themselves follow. Where there are more than
some thousand, counts are estimates, with a ~ before them. Pending, processing and paused count events;
failed, dead and rebuilding count campaigns of a projection. Pauses are what operators have stopped: the
group, projections, campaigns; group list names them.`,
		Example: `  tidemark outbox report
  tidemark outbox report --status failed --limit 100 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkEntries(filter); err != nil {
				return err
			}
			withEntries := cmd.Flags().Changed("status") || cmd.Flags().Changed("limit")
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				r, err := readReport(ctx, pool, filter, withEntries)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(r.document())
				}
				return printReport(env, r)
			})
		},
	}
	bindEntries(command, &filter, &asJSON)
	return command
}

// report is the counts and, if they were asked for, the entries.
type report struct {
	groups      []outbox.GroupReport
	pauses      map[string]int64 // how many a group has: its own, of projections, of campaigns
	entries     []outbox.Entry
	withEntries bool
}

// reportDocument is the counts and, if they were asked for, the entries, as JSON.
type reportDocument struct {
	document.List
	Entries any `json:"entries,omitzero"`
}

func (r report) document() any {
	type group struct {
		outbox.GroupReport
		Pauses int64
	}
	var groups []group
	for _, g := range r.groups {
		groups = append(groups, group{g, r.pauses[g.Group]})
	}
	d := reportDocument{List: document.All(groups)}
	if r.withEntries {
		d.Entries = document.Of(r.entries)
	}
	return d
}

func readReport(ctx context.Context, pool *pgxpool.Pool, filter outbox.Filter, withEntries bool) (r report, err error) {
	r.withEntries, r.pauses = withEntries, map[string]int64{}
	err = session.WithoutJIT(ctx, pool, func(tx pgx.Tx) error { r.groups, err = outbox.Report(ctx, tx); return err })
	if err != nil {
		return r, err
	}
	pauses, err := pause.List(ctx, pool, "", nil, 0)
	for _, p := range pauses {
		r.pauses[p.Group]++
	}
	if err != nil || !withEntries {
		return r, err
	}
	r.entries, err = outbox.List(ctx, pool, filter)
	return r, err
}

func bindEntries(command *cobra.Command, filter *outbox.Filter, asJSON *bool) {
	var names []string
	for _, status := range outbox.Statuses() {
		names = append(names, string(status))
	}
	flags := command.Flags()
	flags.BoolVar(asJSON, "json", false, "write JSON")
	flags.StringVar((*string)(&filter.Status), "status", "", "only entries with this status: "+strings.Join(names, ", "))
	flags.IntVar(&filter.Limit, "limit", 100, "at most so many entries")
	cli.CompleteFlag(command, "status", cli.Choices(outbox.Statuses()))
}

func checkEntries(filter outbox.Filter) error {
	if filter.Status != "" {
		if err := cli.OneOf("status", filter.Status, outbox.Statuses()); err != nil {
			return err
		}
	}
	return cli.AtLeastOne("limit", filter.Limit)
}

func printReport(env *cli.Env, r report) error {
	if len(r.groups) == 0 {
		env.Note("No consumer group yet: the first worker registers one.")
		return nil
	}
	var rows [][]table.Cell
	for _, g := range r.groups {
		oldest, age := table.Cell{Text: "-", Tone: table.Faint}, table.Cell{Text: "-", Tone: table.Faint, Right: true}
		if g.Oldest != nil {
			oldest = table.Text(place(*g.Oldest))
			age = table.Cell{Text: table.Age(g.At.Sub(g.Oldest.Since)), Right: true}
		}
		rows = append(rows, []table.Cell{
			table.Text(g.Group), table.About(g.Pending, g.Estimated, table.Plain),
			table.About(g.Processing, g.Estimated, table.Plain),
			table.About(g.Paused, g.Estimated, table.Warning),
			table.About(g.Failed, g.Estimated, table.Warning), table.About(g.Dead, g.Estimated, table.Alarm),
			table.About(g.Rebuilding, g.Estimated, table.Plain), table.Number(r.pauses[g.Group], table.Warning), age, oldest,
		})
	}
	if err := env.PrintTable([]string{
		"GROUP", "PENDING", "PROCESSING", "PAUSED", "FAILED", "DEAD", "REBUILDING",
		"PAUSES", "AGE", "OLDEST",
	}, rows); err != nil || !r.withEntries {
		return err
	}
	if _, err := io.WriteString(env.Out, "\n"); err != nil {
		return err
	}
	if len(r.entries) == 0 {
		env.Note("No matching entries.")
		return nil
	}
	return env.PrintTable(operator.ViewNamed("listQueueEntries").Table(r.entries))
}

// place names an entry's event and, for a pair, the projection that is to apply it.
func place(e outbox.Entry) string {
	s := fmt.Sprintf("%s %d %s", e.CampaignID, e.Seq, e.EventType)
	if e.Projection != "" {
		s += " for " + e.Projection
	}
	return s
}

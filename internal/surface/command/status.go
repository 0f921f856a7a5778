package command

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/operator/views"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

func newStatus(env *cli.Env) *cobra.Command {
	var asJSON bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "status",
		Short: "Show current problems with remedies, and the progress of everything",
		Long: `Show what is wrong now, where, since when and what to do about it, then how far groups, projections,
publishers and rebuilds are. It is quick with any backlog: figures above some thousand rows are estimates, marked with
~. The exit code is 0 when nothing is wrong, 9 with warnings, 10 when something is critical, 1 without a schema.`,
		Example: `  tidemark status
  tidemark status --json | jq '.item.problems[] | select(.severity == "critical")'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout < time.Millisecond {
				return cli.Usagef("--timeout %s: at least 1ms", timeout)
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				reader := &status.Reader{Pool: pool, Timeout: timeout}
				s, err := reader.Read(ctx)
				switch {
				case errors.Is(err, status.ErrNoSchema):
					return cli.Hint(err, "tidemark migrate up")
				case err != nil:
					return err
				}
				err = env.Print(asJSON, document.Status(s), func() error { return printStatus(env, s) })
				return cmp.Or(err, verdict(s))
			})
		},
	}
	flags := command.Flags()
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	flags.DurationVar(&timeout, "timeout", 2*time.Second,
		"timeout of each part; a part that takes longer is left out and named")
	return command
}

// verdict returns the exit code for the worst problem.
func verdict(s *status.Status) error {
	var critical, warnings int
	for _, p := range s.Problems() {
		switch p.Severity {
		case status.Critical:
			critical++
		case status.Warning:
			warnings++
		}
	}
	switch {
	case critical > 0:
		return cli.Exitf(cli.ExitCritical, "%d critical, %s", critical, table.Count(int64(warnings), "warning"))
	case warnings > 0:
		return cli.Exitf(cli.ExitWarnings, "%s", table.Count(int64(warnings), "warning"))
	}
	return nil
}

// printStatus writes the problems and the tables that are not empty.
func printStatus(env *cli.Env, s *status.Status) error {
	page := env.Page()
	problems := s.Problems()
	switch {
	case len(problems) == 0:
		page.Text("Nothing is wrong.")
	case env.Terminal:
		for _, p := range problems {
			page.Facts(table.Fact{
				Name: string(p.Severity), Value: p.Where + since(s, p) + ": " + p.What,
				Tone: tones()[p.Severity],
			})
			page.Text("          " + p.Do)
		}
	default:
		page.Table([]string{"SEVERITY", "FOR", "WHERE", "WHAT", "DO"}, problemRows(s, problems))
	}
	if len(s.Queue) > 0 {
		page.Heading("Groups")
		page.Table([]string{
			"GROUP", "PROJECTION", "PENDING", "PROCESSING", "PAUSED", "FAILED", "DEAD", "CATCHING UP", "BEHIND", "AGE",
			"EMPTY IN", "WORKERS",
		}, groupRows(s))
	}
	views.Section(page, "Publishers", "listPublishers", s.Publishers)
	views.Section(page, "Rebuilds", "listRebuilds", s.Rebuilds)
	return page.Err()
}

func tones() map[status.Severity]table.Tone {
	return map[status.Severity]table.Tone{
		status.Critical: table.Alarm, status.Warning: table.Warning, status.Note: table.Faint,
	}
}

// since returns the age of a problem, in parentheses.
func since(s *status.Status, p status.Problem) string {
	if p.Since == nil {
		return ""
	}
	return " (" + table.Age(s.At.Sub(*p.Since)) + ")"
}

func problemRows(s *status.Status, problems []status.Problem) (rows [][]table.Cell) {
	for _, p := range problems {
		age := "-"
		if p.Since != nil {
			age = table.Age(s.At.Sub(*p.Since))
		}
		rows = append(rows, table.Row(p.Severity, age, p.Where, p.What, p.Do))
	}
	return rows
}

// groupRows returns a row per group, each followed by the projections that are further behind than it.
func groupRows(s *status.Status) (rows [][]table.Cell) {
	none := table.NumberText("-")
	workers := map[string]int64{}
	for _, w := range s.Workers {
		if w.Live() {
			workers[w.ConsumerGroup]++
		}
	}
	for _, g := range s.Queue {
		row := []table.Cell{
			table.Text(g.Group),
			{Text: "(all)", Tone: table.Faint},
			table.About(g.Pending, g.Estimated, table.Plain), table.About(g.Processing, g.Estimated, table.Plain),
			table.About(g.Paused, g.Estimated, table.Warning),
			table.About(g.Failed, g.Estimated, table.Warning), table.About(g.Dead, g.Estimated, table.Alarm),
			table.About(g.CatchingUp, g.Estimated, table.Plain), none, none, none, table.Number(workers[g.Group], table.Plain),
		}
		var own status.Lag
		for _, l := range s.Lag {
			if l.Group == g.Group && l.Projection == "" {
				own = l
				copy(row[8:11], lagCells(l))
			}
		}
		rows = append(rows, row)
		for _, l := range s.Lag {
			if l.Group == g.Group && l.Projection != "" && (l.Events > own.Events || l.Age > own.Age+time.Second) {
				row := table.Row("", l.Projection, none, none, none, none, none, none)
				rows = append(rows, append(append(row, lagCells(l)...), none))
			}
		}
	}
	return rows
}

func lagCells(l status.Lag) []table.Cell {
	empty := table.NumberText("-")
	if l.Events > 0 && l.Drain != nil && l.Drain.Empty != nil {
		empty = table.NumberText(table.Age(*l.Drain.Empty))
	}
	return []table.Cell{table.About(l.Events, l.Estimated, table.Plain), table.AgeOf(l.Events, l.Age), empty}
}

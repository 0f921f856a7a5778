package verification

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// newWhy returns the command that names the events that wrote a row.
func newWhy(env *cli.Env, compiled Compiled) *cobra.Command {
	var request lookback.WhyRequest
	m := moment{code: code{compiled: compiled}}
	command := &cobra.Command{
		Use:   "why",
		Short: "Name the events that wrote the values of a row",
		Long: `Name the events that wrote the values of a row: for each column the last event that
changed its value. --key has the values of the table's primary key, in the order of its columns and
without campaign_id. The campaign's events are applied one by one beside the live tables; nothing is
written.` + acrossHelp,
		Example: `  tidemark campaign why --campaign oak --table sessions --key s-1
  tidemark campaign why --campaign oak --table characters --key c-7 --seq 40`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if request.Table == "" {
				return cli.Usagef("which table? --table names it")
			}
			var tables []string
			owns := func(r rebuild.Registered) bool {
				if m.chosen(r) {
					tables = append(tables, r.Tables...)
				}
				return m.chosen(r) && slices.Contains(r.Tables, request.Table)
			}
			var why lookback.Why
			across := false
			err := m.with(cmd.Context(), env, owns, func(p *projector.Projector, r rebuild.Registered) (err error) {
				request.Projection, request.CampaignID = r.Name, m.campaign
				across = r.Scope == string(projection.ScopeJournal)
				why, err = p.Why(cmd.Context(), request)
				return err
			})
			if errors.Is(err, errNotHere) && len(tables) > 0 && !slices.Contains(tables, request.Table) {
				slices.Sort(tables)
				err = fmt.Errorf("--table %q: no projection has such a table, there are %s", request.Table,
					list(slices.Compact(tables)))
				return cli.Hint(err, "tidemark projection list")
			}
			if err != nil {
				return err
			}
			return env.Print(m.asJSON, document.One(why), func() error { return printWhy(env, why, across) })
		},
	}
	m.bind(env, command)
	flags := command.Flags()
	flags.StringVar(&request.Table, "table", "", "the table")
	flags.StringArrayVar(&request.Key, "key", nil, "a value of its primary key, without campaign_id; once for each column")
	flags.Int64Var(&request.Seq, "seq", 0, "as the row was after this event (default the last one)")
	m.code.bind(env, command)
	return command
}

// printWhy names events across campaigns by position and campaign too.
func printWhy(env *cli.Env, w lookback.Why, across bool) error {
	place, columns := "event", []string{"SEQ", "TYPE", "OCCURRED", "ACTOR"}
	if across {
		place, columns = "position", append([]string{"POSITION", "CAMPAIGN"}, columns...)
	}
	event := func(e event.Event) []table.Cell {
		cells := table.Row(e.Seq, e.Type, e.OccurredAt, e.Actor)
		if across {
			cells = append(table.Row(e.Position, e.CampaignID), cells...)
		}
		return cells
	}
	switch {
	case w.Row == nil && w.Gone == nil:
		env.Note("There is no such row after %s %d, and never was.", place, w.Seq)
		return nil
	case w.Row == nil:
		env.Note("There is no such row after %s %d: this event deleted it.", place, w.Seq)
		return env.PrintTable(columns, [][]table.Cell{event(*w.Gone)})
	}
	rows := slice.Of(w.Causes, func(c lookback.Cause) []table.Cell {
		return append(table.Row(c.Column, plain(c.Value)), event(c.Event)...)
	})
	if err := env.PrintTable(append([]string{"COLUMN", "VALUE"}, columns...), rows); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

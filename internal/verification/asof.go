package verification

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// moment chooses a campaign and its projections.
type moment struct {
	code                 code
	campaign, projection string
	asJSON               bool
	seq                  int64
	time                 time.Time // instead of seq
}

func (m *moment) bind(env *cli.Env, command *cobra.Command) {
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&m.campaign, "campaign", "", "the campaign; or a key of a projection across campaigns, - for all keys")
	flags.StringVar(&m.projection, "projection", "", "only this projection (default all of campaigns whose code is here)")
	flags.BoolVar(&m.asJSON, "json", false, "write JSON")
	cli.CompleteFlag(command, "campaign", env.Complete(campaignIDs))
	cli.CompleteFlag(command, "projection", env.Complete(ProjectionNames))
}

// with calls work for each chosen projection.
func (m *moment) with(
	ctx context.Context, env *cli.Env, choose func(rebuild.Registered) bool,
	work func(*projector.Projector, rebuild.Registered) error,
) error {
	if m.campaign == "" {
		return cli.Usagef("which campaign? --campaign names it, or the key of a projection across campaigns")
	}
	if name := registry.ProjectionOf(m.projection); name != m.projection {
		return cli.Usagef("--projection %s: its rows are made by the code that runs here: name %s, and run the version "+
			"that you mean", m.projection, name)
	}
	return env.WithPool(ctx, func(ctx context.Context, pool *pgxpool.Pool) error {
		return explain(m.code.with(ctx, env, pool, choose, func(p *projector.Projector, r rebuild.Registered) (err error) {
			if !m.time.IsZero() {
				if r.Scope != string(projection.ScopeJournal) {
					return cli.Usagef("--time is for projections across campaigns, which --projection names: give --seq")
				}
				if m.seq, err = journal.PositionAt(ctx, pool, m.time); err != nil {
					return err
				}
			}
			return work(p, r)
		}))
	})
}

// chosen reports whether to look at r. Only live sets count: the result does not depend on any tables.
func (m *moment) chosen(r rebuild.Registered) bool {
	every := m.projection == "" && r.Scope == string(projection.ScopeCampaign)
	return r.Name == registry.ProjectionOf(r.Name) && (every || m.projection == r.Name)
}

// acrossHelp explains the commands for projections across campaigns.
const acrossHelp = `

For a projection across campaigns, which --projection names, --campaign is a key and events are named by
position instead of seq.`

// NewTravel returns the commands that look at a campaign's rows after any of its events.
func NewTravel(env *cli.Env, compiled Compiled) []*cobra.Command {
	return []*cobra.Command{newAsOf(env, compiled), newDiff(env, compiled), newWhy(env, compiled)}
}

// newAsOf returns the command that shows a campaign's rows as they were after an event.
func newAsOf(env *cli.Env, compiled Compiled) *cobra.Command {
	m := moment{code: code{compiled: compiled}}
	command := &cobra.Command{
		Use:   "as-of",
		Short: "Show a campaign's rows as they were after one of its events",
		Long: `Show a campaign's rows as they were after one of its events: the projections apply
the events up to there beside the live tables. Nothing is written. Event 0 is before the first one.` + acrossHelp,
		Example: `  tidemark campaign as-of --campaign oak --seq 12
  tidemark campaign as-of --campaign oak --seq 12 --projection sessions --json
  tidemark campaign as-of --campaign ann --projection leaderboard --time 2026-11-01T00:00:00Z`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("seq") != m.time.IsZero() {
				return cli.Usagef("after which event? Either --seq or --time names it")
			}
			var states []lookback.State
			across := false
			err := m.with(cmd.Context(), env, m.chosen, func(p *projector.Projector, r rebuild.Registered) error {
				state, err := p.AsOf(cmd.Context(), r.Name, m.campaign, m.seq)
				states, across = append(states, state), r.Scope == string(projection.ScopeJournal)
				return err
			})
			if err != nil {
				return err
			}
			return env.Print(m.asJSON, document.All(states), func() error {
				if err := printStates(env, states); err != nil {
					return err
				}
				m.noteEmpty(env, states, across)
				return nil
			})
		},
	}
	m.bind(env, command)
	command.Flags().Int64Var(&m.seq, "seq", 0, "the event")
	command.Flags().TimeVar(&m.time, "time", time.Time{}, []string{time.RFC3339},
		"the last event before this time (RFC 3339), for a projection across campaigns")
	m.code.bind(env, command)
	return command
}

// noteEmpty says so if there is no row: a key may be misspelled.
func (m *moment) noteEmpty(env *cli.Env, states []lookback.State, across bool) {
	for _, s := range states {
		for _, t := range s.Tables {
			if len(t.Rows) > 0 {
				return
			}
		}
	}
	switch {
	case across && m.campaign == projection.AllKeys:
		env.Note("No key has a row after position %d.", m.seq)
	case across:
		env.Note("Key %s has no row after position %d: no event up to there may have it.", table.Quote(m.campaign), m.seq)
	default:
		env.Note("Campaign %s has no row after event %d.", table.Quote(m.campaign), m.seq)
	}
}

func printStates(env *cli.Env, states []lookback.State) error {
	page := env.Page()
	for _, s := range states {
		for _, t := range s.Tables {
			page.Heading(s.Projection + ": " + t.Table)
			var rows [][]table.Cell
			for _, raw := range t.Rows {
				var values map[string]json.RawMessage
				if err := json.Unmarshal(raw, &values); err != nil {
					return fmt.Errorf("read a row of %s: %w", t.Table, err)
				}
				rows = append(rows, slice.Of(t.Columns, func(column string) table.Cell {
					return table.Text(plain(values[column]))
				}))
			}
			page.Table(t.Columns, rows)
		}
	}
	return page.Err()
}

// plain formats a JSON value for people: text without quotes.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && string(value) != "null" {
		return text
	}
	return compact(value)
}

type change struct {
	Projection string
	lookback.Change
}

// newDiff returns the command that shows how events changed a campaign's rows.
func newDiff(env *cli.Env, compiled Compiled) *cobra.Command {
	var from, to int64
	m := moment{code: code{compiled: compiled}}
	command := &cobra.Command{
		Use:   "diff",
		Short: "Show what changed in a campaign's rows between two of its events",
		Long: `Show what changed in a campaign's rows between two of its events, --from and --to. Without
--from it shows what event --to changed. Nothing is written.` + acrossHelp,
		Example: `  tidemark campaign diff --campaign oak --to 12
  tidemark campaign diff --campaign oak --from 10 --to 12 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("to") {
				return cli.Usagef("up to which event? --to names it")
			}
			if !cmd.Flags().Changed("from") {
				from = max(0, to-1)
			}
			if from > to {
				return cli.Usagef("--from %d is after --to %d: swap them", from, to)
			}
			var changed []change
			err := m.with(cmd.Context(), env, m.chosen, func(p *projector.Projector, r rebuild.Registered) error {
				changes, err := p.Diff(cmd.Context(), r.Name, m.campaign, from, to)
				changed = append(changed, slice.Of(changes, func(c lookback.Change) change { return change{r.Name, c} })...)
				return err
			})
			switch {
			case err != nil:
				return err
			case m.asJSON:
				return env.PrintJSON(document.All(changed))
			case len(changed) == 0:
				env.Note("Events %d to %d changed no row.", from+1, to)
				return nil
			}
			return printChanges(env, changed)
		},
	}
	m.bind(env, command)
	command.Flags().Int64Var(&from, "from", 0,
		"compare the rows after this event (default the one before --to)")
	command.Flags().Int64Var(&to, "to", 0, "with the rows after this event")
	m.code.bind(env, command)
	return command
}

func printChanges(env *cli.Env, changes []change) error {
	var rows [][]table.Cell
	for _, c := range changes {
		eachColumn(c.Columns, c.Before, c.After, func(column string, before, after json.RawMessage) {
			rows = append(rows, table.Row(c.Kind, c.Table, compact(c.Key), column, plain(before), plain(after)))
		})
	}
	return env.PrintTable([]string{"CHANGE", "TABLE", "KEY", "COLUMN", "BEFORE", "AFTER"}, rows)
}

package verification

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/cli"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// diffVersion changes when a field goes or changes its meaning.
const diffVersion = 1

type diffJSON struct {
	Version    int          `json:"version"`
	CampaignID string       `json:"campaign_id"`
	From       int64        `json:"from"`
	To         int64        `json:"to"`
	Changes    []changeJSON `json:"changes"`
}

type changeJSON struct {
	Kind       projector.ChangeKind `json:"kind"`
	Projection string               `json:"projection"`
	Table      string               `json:"table"`
	Key        json.RawMessage      `json:"key"`     // an array; null: the table has no primary key
	Columns    []string             `json:"columns"` // that changed
	Before     json.RawMessage      `json:"before"`  // null: there was no such row
	After      json.RawMessage      `json:"after"`   // null: there is none any more
}

// NewDiff returns the command that shows what events changed in a campaign's rows.
func NewDiff(env *cli.Env, compiled Compiled) *cobra.Command {
	var from, to int64
	m := moment{code: code{compiled: compiled}}
	command := &cobra.Command{
		Use:   "diff",
		Short: "Show what became of a campaign's rows between two of its events",
		Long: `Show what became of a campaign's rows between two of its events: those that are others after --to than they were after --from. Without --from it is what event --to alone
has done. Nothing is written.`,
		Example: `  maintenance campaign diff --campaign oak --to 12
  maintenance campaign diff --campaign oak --from 10 --to 12 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("to") {
				return cli.Usagef("up to which event? --to names it")
			}
			if !cmd.Flags().Changed("from") {
				from = max(0, to-1)
			}
			if from > to {
				return cli.Usagef("--from %d is after --to %d: turn them round", from, to)
			}
			document := diffJSON{Version: diffVersion, CampaignID: m.campaign, From: from, To: to, Changes: []changeJSON{}}
			err := m.with(cmd.Context(), env, m.chosen, func(p *projector.Projector, r projector.Registered) error {
				changes, err := p.Diff(cmd.Context(), r.Name, m.campaign, from, to)
				for _, c := range changes {
					document.Changes = append(document.Changes, changeJSON{
						Kind: c.Kind, Projection: r.Name, Table: c.Table, Key: c.Key, Columns: append([]string{}, c.Columns...), Before: c.Before, After: c.After,
					})
				}
				return err
			})
			switch {
			case err != nil:
				return err
			case m.asJSON:
				return env.PrintJSON(document)
			case len(document.Changes) == 0:
				env.Note("Events %d to %d changed no row.", from+1, to)
				return nil
			}
			return printChanges(env, document.Changes)
		},
	}
	m.bind(env, command)
	command.Flags().Int64Var(&from, "from", 0, "the event before the first one that is looked at (default the one before --to)")
	command.Flags().Int64Var(&to, "to", 0, "the last event that is looked at")
	m.code.bind(command)
	return command
}

func printChanges(env *cli.Env, changes []changeJSON) error {
	var rows [][]cli.Cell
	for _, c := range changes {
		line := func(column string, before, after json.RawMessage) {
			rows = append(rows, []cli.Cell{cli.Text(string(c.Kind)), cli.Text(c.Table), cli.Text(compact(c.Key)), cli.Text(column), cli.Text(plain(before)), cli.Text(plain(after))})
		}
		if c.Kind != projector.ChangeChanged {
			line("", c.Before, c.After)
			continue
		}
		var before, after map[string]json.RawMessage
		_, _ = json.Unmarshal(c.Before, &before), json.Unmarshal(c.After, &after) // objects that Postgres has made
		for _, column := range c.Columns {
			line(column, before[column], after[column])
		}
	}
	return env.PrintTable([]string{"CHANGE", "TABLE", "KEY", "COLUMN", "BEFORE", "AFTER"}, rows)
}

package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/cli"
	"github.com/tidemark-go/tidemark/pkg/outbox"
)

// lagVersion changes when a field goes or changes its meaning.
const lagVersion = 1

type lagJSON struct {
	Version int          `json:"version"`
	Lags    []behindJSON `json:"lags"`
}

type behindJSON struct {
	Group      string  `json:"group"`
	Projection *string `json:"projection"` // null: the group as a whole
	Events     int64   `json:"events"`
	Campaigns  int64   `json:"campaigns"`
	Seconds    float64 `json:"seconds"`
}

func newLag(env *cli.Env) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "lag",
		Short: "Show how far groups and their projections are behind the journal",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				lags, err := outbox.Lag(ctx, pool)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(lagDocument(lags))
				}
				return printLag(env, lags)
			})
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

func lagDocument(lags []outbox.Behind) lagJSON {
	document := lagJSON{Version: lagVersion, Lags: []behindJSON{}}
	for _, b := range lags {
		behind := behindJSON{Group: b.Group, Events: b.Events, Campaigns: b.Campaigns, Seconds: b.Age.Seconds()}
		if b.Projection != "" {
			behind.Projection = &b.Projection
		}
		document.Lags = append(document.Lags, behind)
	}
	return document
}

func printLag(env *cli.Env, lags []outbox.Behind) error {
	if len(lags) == 0 {
		env.Note("No consumer group yet: the first worker registers one.")
		return nil
	}
	var rows [][]cli.Cell
	for _, b := range lags {
		projection := cli.Text(b.Projection)
		if b.Projection == "" {
			projection = cli.Cell{Text: "(all)", Tone: cli.Faint}
		}
		age := cli.Cell{Text: "-", Tone: cli.Faint, Right: true}
		if b.Events > 0 {
			age = cli.Cell{Text: cli.Age(b.Age), Right: true}
		}
		rows = append(rows, []cli.Cell{cli.Text(b.Group), projection, cli.Number(b.Events, cli.Plain), cli.Number(b.Campaigns, cli.Plain), age})
	}
	return env.PrintTable([]string{"GROUP", "PROJECTION", "EVENTS", "CAMPAIGNS", "AGE"}, rows)
}

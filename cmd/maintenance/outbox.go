package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/cli"
	"github.com/tidemark-go/tidemark/pkg/outbox"
)

func newOutbox(env *cli.Env) *cobra.Command {
	return cli.Noun("outbox", "Show what remains to be done", newOutboxReport(env), newOutboxList(env))
}

func newOutboxReport(env *cli.Env) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "report",
		Short: "Count what remains to be done, by status, and name the oldest entry a worker could take",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				groups, err := outbox.Report(ctx, pool)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(reportDocument(groups))
				}
				return printReport(env, groups)
			})
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

func printReport(env *cli.Env, groups []outbox.GroupReport) error {
	if len(groups) == 0 {
		env.Note("No consumer group yet: the first worker registers one.")
		return nil
	}
	var rows [][]cli.Cell
	for _, g := range groups {
		oldest, age := cli.Cell{Text: "-", Tone: cli.Faint}, cli.Cell{Text: "-", Tone: cli.Faint, Right: true}
		if g.Oldest != nil {
			oldest = cli.Text(place(*g.Oldest))
			age = cli.Cell{Text: cli.Age(g.At.Sub(g.Oldest.Since)), Right: true}
		}
		rows = append(rows, []cli.Cell{
			cli.Text(g.Group), cli.Number(g.Pending, cli.Plain), cli.Number(g.Processing, cli.Plain), cli.Number(g.Failed, cli.Warning),
			cli.Number(g.Dead, cli.Alarm), cli.Number(g.Rebuilding, cli.Plain), age, oldest,
		})
	}
	return env.PrintTable([]string{"GROUP", "PENDING", "PROCESSING", "FAILED", "DEAD", "REBUILDING", "AGE", "OLDEST"}, rows)
}

// place names an entry's event and, for a pair, the projection that is to apply it.
func place(e outbox.Entry) string {
	s := fmt.Sprintf("%s %d %s", e.CampaignID, e.Seq, e.EventType)
	if e.Projection != "" {
		s += " for " + e.Projection
	}
	return s
}

func newOutboxList(env *cli.Env) *cobra.Command {
	var (
		asJSON bool
		filter outbox.Filter
		names  []string
	)
	for _, status := range outbox.Statuses() {
		names = append(names, string(status))
	}
	command := &cobra.Command{
		Use:   "list",
		Short: "List entries, those that have waited longest first",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if filter.Status != "" {
				if err := cli.OneOf("status", filter.Status, outbox.Statuses()); err != nil {
					return err
				}
			}
			if err := cli.AtLeastOne("limit", filter.Limit); err != nil {
				return err
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				entries, err := outbox.List(ctx, pool, filter)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(listDocument(entries))
				}
				return printEntries(env, entries)
			})
		},
	}
	flags := command.Flags()
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	flags.StringVar((*string)(&filter.Status), "status", "", "only entries with this status: "+strings.Join(names, ", "))
	flags.StringVar(&filter.CampaignID, "campaign", "", "only this campaign's entries")
	flags.IntVar(&filter.Limit, "limit", 100, "at most so many entries")
	return command
}

func printEntries(env *cli.Env, entries []outbox.Entry) error {
	if len(entries) == 0 {
		env.Note("Nothing.")
		return nil
	}
	var rows [][]cli.Cell
	for _, e := range entries {
		rows = append(rows, []cli.Cell{
			cli.Text(e.Group),
			{Text: string(e.Status), Tone: tone(e.Status)},
			cli.Text(e.CampaignID), cli.Number(e.Seq, cli.Plain), cli.Text(e.EventType),
			cli.Text(e.Since.UTC().Format(time.RFC3339)), cli.Text(e.Projection), cli.Number(int64(e.Attempts), cli.Plain), cli.Text(e.Error),
		})
	}
	return env.PrintTable([]string{"GROUP", "STATUS", "CAMPAIGN", "SEQ", "TYPE", "SINCE", "PROJECTION", "ATTEMPTS", "ERROR"}, rows)
}

func tone(s outbox.Status) cli.Tone {
	switch s {
	case outbox.Failed:
		return cli.Warning
	case outbox.Dead:
		return cli.Alarm
	default:
		return cli.Plain
	}
}

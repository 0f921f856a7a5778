package command

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/operator/views"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// withEntries adds --status and --limit to the report. They also list the chosen entries.
func withEntries(env *cli.Env, command *cobra.Command, report *views.View) {
	entries, given, show := views.Named("listQueueEntries"), params{}, command.RunE
	choice := slices.DeleteFunc(slices.Clone(entries.Params), func(p param.Param) bool {
		return p.Name != "status" && p.Name != "limit"
	})
	given.bind(env, command, choice)
	flags := command.Flags()
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if !flags.Changed("status") && !flags.Changed("limit") {
			return show(cmd, args)
		}
		in, err := entries.Input(choice, given.texts(choice, nil))
		if err != nil {
			return usage(choice, err)
		}
		asJSON, err := flags.GetBool("json")
		if err != nil {
			return err
		}
		return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
			all, err := report.Input(nil, nil)
			if err != nil {
				return err
			}
			counts, err := report.Read(ctx, views.Reader{Pool: pool}, all)
			if err != nil {
				return err
			}
			found, err := entries.Read(ctx, views.Reader{Pool: pool}, in)
			if err != nil {
				return err
			}
			if asJSON {
				return env.PrintJSON(struct {
					document.List
					Entries any `json:"entries"`
				}{counts.Document.(document.List), found.Document.(document.List).Items})
			}
			page := env.Page()
			counts.Print(page)
			page.Text("\n")
			found.Print(page)
			return page.Err()
		})
	}
}

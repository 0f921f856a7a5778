package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/migrations"
)

func newStatus(opts *options) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List the migrations and when they were applied; changes nothing",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return opts.database(cmd, func(ctx context.Context, url string) error {
				all, err := migrations.Status(ctx, url)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(cmd.OutOrStdout(), all)
				}
				return writeTable(cmd.OutOrStdout(), all)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object (default false)")
	return cmd
}

func writeJSON(to io.Writer, all []migrations.Migration) error {
	version, pending := place(all)
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Version    int64                  `json:"version"`
		Pending    int                    `json:"pending"`
		Migrations []migrations.Migration `json:"migrations"`
	}{version, pending, all})
}

func writeTable(to io.Writer, all []migrations.Migration) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "VERSION\tMIGRATION\tAPPLIED") // Flush returns write errors
	for _, step := range all {
		name, applied := cmp.Or(step.Name, "(unknown to this program)"), "pending"
		if step.AppliedAt != nil {
			applied = step.AppliedAt.UTC().Format(time.RFC3339)
		}
		_, _ = fmt.Fprintf(table, "%d\t%s\t%s\n", step.Version, name, applied)
	}
	return table.Flush()
}

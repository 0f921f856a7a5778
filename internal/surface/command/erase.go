package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// eraseCommand writes the certificate, reads the event catalogue, and opens the archive.
func eraseCommand(env *cli.Env) extra {
	var file string
	archive := archiveCommand(env)
	return extra{
		flags: func(flags *pflag.FlagSet) {
			archive.flags(flags)
			flags.StringVar(&file, "catalogue", "", "event catalogue, a YAML file, for subject fields and --personal")
		},
		acts: func(acts *admin.Acts) (*admin.Acts, error) {
			acts, err := archive.acts(acts)
			if err != nil || file == "" {
				return acts, err
			}
			catalogue, err := journal.LoadCatalogue(os.DirFS(filepath.Dir(file)), filepath.Base(file))
			if err != nil {
				return nil, &cli.UsageError{Err: err}
			}
			return acts.Reading(catalogue), nil
		},
		after: func(_ context.Context, c *actCommand, _ *pgxpool.Pool, _ string, done *admin.Outcome) error {
			var certificate erasure.Certificate
			if err := json.Unmarshal(done.Detail, &certificate); err != nil {
				return err
			}
			c.env.Note("Erased %s. Workers make the read models anew.", table.Count(certificate.Events, "event"))
			for _, subject := range certificate.Keyless {
				c.env.Note("No key of %s was deleted, as there is none. If it is a tag, also erase the value of the subject field.",
					table.Quote(subject))
			}
			for _, object := range certificate.Objects {
				c.env.Note("Delete %s and its manifest from the archive: no campaign needs it.", object)
			}
			c.env.Note("next: tidemark erase verify FILE, with the certificate")
			return c.env.PrintJSON(certificate)
		},
	}
}

// newEraseVerify returns the command that searches for what an erasure has left.
func newEraseVerify(env *cli.Env) *cobra.Command {
	var asJSON bool
	var models string
	var set *config.Set
	command := &cobra.Command{
		Use:   "verify CERTIFICATE",
		Short: "Search all tables for what an erasure has erased",
		Long: `Search all tables of Tidemark and of the projections for the values that an erasure has erased: texts of
4 characters and more, and numbers of 7. CERTIFICATE is the file that campaign erase or subject erase wrote; -: stdin.

A value that events have which were not erased is searched for in no other table: the number of these events is shown.
Projections that workers still make anew are listed: search again later.

The tables of projections are read with the workers' login, which --models-url names.

It ends with 7 if a table has an erased value.`,
		Example: "  tidemark erase verify certificate.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			certificate, err := readCertificate(env, args[0])
			if err := errors.Join(set.Finish(), err); err != nil {
				return &cli.UsageError{Err: err}
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				var report *erasure.Report
				err := env.WithModels(ctx, models, pool, func(models *pgxpool.Pool) (err error) {
					report, err = erasure.Verify(ctx, pool, models, certificate)
					return err
				})
				if err != nil {
					return err
				}
				err = env.Print(asJSON, document.One(report), func() error { return printErasure(env, report) })
				if err == nil && report.Rows > 0 {
					err = cli.Exitf(cli.ExitDifferences, "%s with an erased value", table.Count(report.Rows, "row"))
				}
				return err
			})
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	set = config.NewSet(command.Flags())
	config.ModelsSetting(set, &models)
	return command
}

func readCertificate(env *cli.Env, file string) (c erasure.Certificate, err error) {
	in := env.In
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return c, err
		}
		defer func() { _ = opened.Close() }()
		in = opened
	}
	if err := json.NewDecoder(io.LimitReader(in, 64<<20)).Decode(&c); err != nil {
		return c, fmt.Errorf("%s is no certificate: %w", file, err)
	}
	return c, nil
}

func printErasure(env *cli.Env, r *erasure.Report) error {
	var rows [][]table.Cell
	for _, s := range r.Searched {
		if s.Rows > 0 || s.Error != "" {
			rows = append(rows, table.Row(s.Table, s.Rows, s.Error))
		}
	}
	if r.Shared > 0 {
		env.Note("%s that were not erased have some of the values: are they about the same person?",
			table.Count(r.Shared, "event"))
	}
	for _, name := range r.Pending {
		env.Note("%s is still made anew: search again later.", name)
	}
	if len(rows) == 0 {
		env.Note("Found in none of %s.", table.Count(int64(len(r.Searched)), "table"))
		return nil
	}
	return env.PrintTable([]string{"TABLE", "ROWS", "ERROR"}, rows)
}

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/erasure"
)

// eraseCommand writes the certificate, reads the event catalogue, and opens the archive.
func eraseCommand(env *cli.Env) extra {
	var set *config.Set
	var file string
	where := config.Archive{Kinds: env.Archives}
	return extra{
		flags: func(flags *pflag.FlagSet) {
			set = config.NewSet(flags)
			config.ArchiveSetting(set, &where)
			set.String(&file, "TIDEMARK_CATALOGUE", "", "event catalogue, a YAML file, for subject fields and --personal")
		},
		acts: func(does *admin.Acts) (*admin.Acts, error) {
			err := set.Finish()
			var store archive.Store
			if err == nil {
				store, err = where.Open()
			}
			var types *catalogue.Catalogue
			if err == nil && file != "" {
				types, err = yamlfile.Load(os.DirFS(filepath.Dir(file)), filepath.Base(file))
			}
			if err != nil {
				return nil, &cli.UsageError{Err: err}
			}
			return does.Storing(store).Reading(types), nil
		},
		failed: eraseFailed,
		found: func(_ *actCommand, plan *acts.Plan) error {
			found, _ := plan.Detail.(erasure.Found)
			return unknownSubjects(found.Unknown)
		},
		after: func(_ context.Context, c *actCommand, _ *pgxpool.Pool, _ string, done *admin.Outcome) error {
			var certificate erasure.Certificate
			if err := json.Unmarshal(done.Detail, &certificate); err != nil {
				return err
			}
			c.env.Note("Erased %s. Workers make the read models anew.", table.Count(certificate.Events, "event"))
			if len(certificate.Rebuilt) > 0 {
				c.env.Note("They rebuild %s, and swap also with failed keys: tidemark failed list shows these.",
					strings.Join(certificate.Rebuilt, ", "))
			}
			for _, subject := range certificate.Keyless {
				c.env.Note("No key of %s was deleted, as there is none. If it is a tag, also erase the value of the subject field.",
					table.Quote(subject))
			}
			for _, object := range certificate.Objects {
				c.env.Note("Delete %s and its manifest from the archive: no campaign needs it.", object)
			}
			c.env.Note("next: tidemark erase verify FILE, with the certificate")
			if err := c.env.PrintJSON(certificate); err != nil {
				return err
			}
			return unknownSubjects(certificate.Unknown)
		},
	}
}

// abandonCommand writes the certificate.
func abandonCommand() extra {
	return extra{
		failed: eraseFailed,
		after: func(_ context.Context, c *actCommand, _ *pgxpool.Pool, _ string, done *admin.Outcome) error {
			var certificate erasure.Certificate
			if err := json.Unmarshal(done.Detail, &certificate); err != nil {
				return err
			}
			c.env.Note("Abandoned erasure %d. It has erased %s, and nothing of what it had not reached.", certificate.Erasure,
				table.Count(certificate.Events, "event"))
			c.env.Note("next: tidemark erase verify FILE, with the certificate")
			return c.env.PrintJSON(certificate)
		},
	}
}

// unknownSubjects returns the error for subjects of which nothing was found.
func unknownSubjects(subjects []string) error {
	if len(subjects) == 0 {
		return nil
	}
	return cli.Exitf(cli.ExitNothing, "nothing was found of %q, as a tag or in a subject field of the catalogue "+
		"(TIDEMARK_CATALOGUE)", subjects)
}

// eraseFailed writes the certificate of what is done.
func eraseFailed(c *actCommand, err error) error {
	if errors.Is(err, erasure.ErrNothing) {
		return cli.Exitf(cli.ExitNothing, "%w", err)
	}
	partial, ok := errors.AsType[*erasure.PartialError](err)
	if !ok {
		return err
	}
	return cli.Exitf(cli.ExitPartial, "%w", errors.Join(err, c.env.PrintJSON(partial.Certificate)))
}

// newEraseVerify returns the command that searches for what an erasure has left.
func newEraseVerify(env *cli.Env) *cobra.Command {
	var asJSON bool
	var models string
	var set *config.Set
	command := &cobra.Command{
		Use:   "verify CERTIFICATE|ERASURE",
		Short: "Search all tables for what an erasure has erased",
		Long: `Search all tables of Tidemark and of the projections for the values that an erasure has erased: texts of
4 letters and digits or more, and numbers of 7, also in longer text, in small and capital letters. CERTIFICATE is the
file that campaign erase or subject erase wrote; -: stdin. ERASURE is the number of an erasure that was killed, and
has not ended.

A value that events have which were not erased is searched for in no other table: the number of these events is shown.
Projections that workers still make anew are listed: search again later.

The tables of projections are read with the workers' login, which --models-url names.

It ends with 7 if a table has an erased value, and else with 6 while the erasure has not ended, while read models are
made anew, or if a table could not be searched.`,
		Example: "  tidemark erase verify certificate.json\n  tidemark erase verify 7",
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
				switch {
				case err != nil:
					return err
				case report.Rows > 0:
					return cli.Exitf(cli.ExitDifferences, "%s with an erased value", table.Count(report.Rows, "row"))
				case !report.Ended:
					return cli.Exitf(cli.ExitPartial, "erasure %d has not ended: tidemark erase list tells whether it runs; if "+
						"not, erase again, or abandon it if the request is lost", report.Erasure)
				case !report.Finished():
					return cli.Exitf(cli.ExitPartial, "read models are still made anew, or a table could not be searched: "+
						"search again")
				}
				return nil
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
	if number, err := strconv.ParseInt(file, 10, 64); err == nil && number > 0 {
		return erasure.Certificate{Erasure: number}, nil
	}
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
	if r.Abandoned {
		env.Note("The erasure was abandoned: events that it had not reached are as they were.")
	}
	if len(rows) == 0 && r.Finished() {
		env.Note("Found in none of %s.", table.Count(int64(len(r.Searched)), "table"))
	}
	if len(rows) == 0 {
		return nil
	}
	return env.PrintTable([]string{"TABLE", "ROWS", "ERROR"}, rows)
}

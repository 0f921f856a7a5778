// Package migrate has the commands that migrate the schema "tidemark" up and down and show its version.
package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/migrations"
)

const description = `migrate brings the schema "tidemark" up or down, and tells where it stands.

It works on the database of --database-url or TIDEMARK_DATABASE_URL. The connection must be a direct one: PgBouncer
in transaction mode breaks the lock that keeps two migrations from running at once. With --dev it works on a private
Postgres under .tidemark/, which it starts for as long as it needs it.

The migrations are those of the goose command line tool, and so is the table with the versions, goose_db_version.`

type options struct {
	databaseURL string
	server      cli.Server // for --dev
}

// Main runs the command line of the process and returns the exit code for [os.Exit].
func Main() int {
	ctx, stop := cli.Context()
	defer stop()
	env, root := cli.Standard(devpg.Serve), NewCommand(devpg.Serve)
	root.PersistentPreRun = func(*cobra.Command, []string) {
		for _, stray := range config.Stray(os.Environ()) {
			env.Note("%s: %s", root.Name(), stray)
		}
	}
	return cli.Run(ctx, root, env, os.Args[1:])
}

// NewCommand returns the command migrate with its subcommands. With --dev they migrate the Postgres that server
// starts.
func NewCommand(server cli.Server) *cobra.Command {
	opts := options{server: server}
	root := cli.Noun("migrate", `Migrate the schema "tidemark"`,
		newUp(&opts), newDown(&opts), newStatus(&opts), newWait(&opts), newSQL(), newRoles())
	root.Long = description
	root.PersistentFlags().StringVar(&opts.databaseURL, "database-url", "",
		"the database (default TIDEMARK_DATABASE_URL)")
	return root
}

func newUp(opts *options) *cobra.Command {
	var to int64
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Apply pending migrations",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return opts.change(cmd, func(ctx context.Context, url string) error {
				if to == 0 {
					return migrations.Up(ctx, url)
				}
				return migrations.UpTo(ctx, url, to)
			})
		},
	}
	cmd.Flags().Int64Var(&to, "to", 0, "the version to stop at (default 0: the newest)")
	return cmd
}

func newDown(opts *options) *cobra.Command {
	var to int64
	cmd := &cobra.Command{
		Use:   "down --to VERSION",
		Short: "Undo the migrations above a version; 0 undoes all and destroys the journal",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to < 0 {
				return fmt.Errorf("--to is %d, want a version or 0", to)
			}
			return opts.change(cmd, func(ctx context.Context, url string) error { return migrations.Down(ctx, url, to) })
		},
	}
	cmd.Flags().Int64Var(&to, "to", 0, "the version to go back to (required)")
	if err := cmd.MarkFlagRequired("to"); err != nil {
		panic(err) // the flag is defined in the line above
	}
	return cmd
}

// database calls work with the URL from the flags or the environment, or of the private server.
func (o *options) database(cmd *cobra.Command, work func(ctx context.Context, url string) error) (err error) {
	logger := slog.New(tint.NewTextHandler(cmd.ErrOrStderr(), &tint.Options{Level: slog.LevelWarn}))
	url := cmp.Or(o.databaseURL, os.Getenv(cli.URLVariable))
	url, done, err := cli.Database(cmd.Context(), logger, url, cli.Dev(cmd), o.server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	return work(cmd.Context(), url)
}

func (o *options) change(cmd *cobra.Command, work func(ctx context.Context, url string) error) error {
	return o.database(cmd, func(ctx context.Context, url string) error {
		if err := work(ctx, url); err != nil {
			return err
		}
		all, err := migrations.Status(ctx, url)
		if err != nil {
			return err
		}
		version, pending := place(all)
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "schema at version %d, %d pending\n", version, pending)
		return err
	})
}

// place returns the newest applied version and the number of pending migrations.
func place(all []migrations.Migration) (version int64, pending int) {
	for _, step := range all {
		if step.AppliedAt == nil {
			pending++
		} else {
			version = step.Version
		}
	}
	return version, pending
}

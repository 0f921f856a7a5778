package migrate

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/migrations"
)

const sqlDescription = `Print the SQL for those who apply it themselves, with psql -v ON_ERROR_STOP=1 or another
tool. Each migration is one transaction and notes its version as goose does. With --dir, write the files for
the goose command line tool instead:

  tidemark migrate sql --dir tidemark-migrations
  goose -dir tidemark-migrations postgres "$TIDEMARK_DATABASE_URL" up`

func newSQL() *cobra.Command {
	var from, to int64
	var dir string
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print the SQL for those who apply it themselves; needs no database",
		Long:  sqlDescription,
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir != "" {
				return writeFiles(dir)
			}
			script, err := migrations.Script(from, to)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), script)
			return err
		},
	}
	cmd.Flags().Int64Var(&from, "from", 0, "the version that the schema is at (default 0: there is none yet)")
	cmd.Flags().Int64Var(&to, "to", 0, "the version to bring it to (default 0: the newest)")
	cmd.Flags().StringVar(&dir, "dir", "", "write goose's files into this folder (default none: print SQL)")
	cmd.MarkFlagsMutuallyExclusive("dir", "from")
	cmd.MarkFlagsMutuallyExclusive("dir", "to")
	return cmd
}

// writeFiles writes the migration files unchanged.
func writeFiles(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return err
	}
	for _, name := range names {
		content, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

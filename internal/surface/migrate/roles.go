package migrate

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/migrations/roles"
)

const rolesDescription = `Print the SQL that makes a database role for each kind of program and grants it what it
needs. Run it as a superuser, or as the owner of the database if that role may create roles, before the first ` +
	`migration and after each:

  tidemark migrate roles | psql "$SUPERUSER_URL" -v ON_ERROR_STOP=1

The roles cannot log in. Create logins that are members of them. It can run any number of times.`

func newRoles() *cobra.Command {
	var o roles.Options
	cmd := &cobra.Command{
		Use:   "roles",
		Short: "Print the SQL that makes the database's roles; needs no database",
		Long:  rolesDescription,
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			script, err := roles.Script(o)
			if err != nil {
				return &cli.UsageError{Err: err}
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), script)
			return err
		},
	}
	cmd.Flags().StringVar(&o.Prefix, "prefix", "",
		"start of the roles' names, for several installations (default tidemark)")
	cmd.Flags().StringVar(&o.Schema, "schema", "", "schema of the read models (default tidemark_views)")
	cmd.Flags().BoolVar(&o.AdvisoryLocks, "advisory-locks", false,
		"also keep other roles from taking advisory locks (default false)")
	return cmd
}

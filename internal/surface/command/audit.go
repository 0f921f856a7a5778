package command

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// newAudit makes the command that shows all that operators did, whichever way.
func newAudit(env *cli.Env) *cobra.Command {
	known := publications.Acts()
	for _, k := range admin.Kinds() {
		if name := string(k); !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	return operatorLog(env, known, "deferred_resolved, projection_removed", &cobra.Command{
		Use:   "audit",
		Short: "Show what operators did, here, through the API and on the pages, newest first",
		Long: `Show what operators did, here, through the API and on the pages: who, when, why, and what was
asked for. WAY is cli, api or page, and empty for a program; TOKEN is the id of the token, ADDRESS the
client's, and DATABASE USER the login of the database, which nobody can choose. failed log has what an act did
to each failed campaign. Records are kept for a year, or as long as TIDEMARK_OPERATOR_LOG_RETENTION says to workers.`,
		Example: `  tidemark audit --by ada@box
  tidemark audit --act deferred_resolved --act projection_removed --limit 20
  tidemark audit --before 4711 --json`,
	})
}

package app

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
)

// newCatalogueWrite returns the command that prints a program's catalogue.
func newCatalogueWrite(types *catalogue.Catalogue) *cobra.Command {
	return &cobra.Command{
		Use:   "write",
		Short: "Print the event catalogue of this program as a file",
		Long: `Print the event catalogue of this program as the YAML file that TIDEMARK_CATALOGUE can name, for the tidemark
command and for workers without this program's code. Upcasters of code cannot be in a file.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := yamlfile.Write(types)
			if err == nil {
				_, err = cmd.OutOrStdout().Write(file)
			}
			return err
		},
	}
}

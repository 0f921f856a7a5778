// Command tidemark is all of Tidemark in one program: the worker, the migrations, the operators'
// commands and a demo.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/app"
	"github.com/tidemark-go/tidemark/internal/demo"
	"github.com/tidemark-go/tidemark/internal/devpg/embedded"
	"github.com/tidemark-go/tidemark/internal/sinks"
	"github.com/tidemark-go/tidemark/internal/surface/command"
	"github.com/tidemark-go/tidemark/internal/surface/migrate"
)

func main() {
	os.Exit(command.Main(command.Options{
		Name:   "tidemark",
		Server: embedded.Serve,
		Commands: []*cobra.Command{
			app.NewCommand(app.Options{Sinks: sinks.Kinds(), Server: embedded.Serve}),
			migrate.NewCommand(embedded.Serve), demo.NewCommand(embedded.Serve),
		},
	}))
}

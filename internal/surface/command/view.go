package command

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/operator/views"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newView(env *cli.Env, view *views.View) *cobra.Command {
	given, asJSON := params{}, false
	command := &cobra.Command{
		Use: use(view.Command, view.Params), Short: view.Short, Long: view.Long, Example: examples(view.Examples),
		Args: takes(view.Params), ValidArgsFunction: completeArgs(env, view.Params),
		RunE: func(command *cobra.Command, args []string) error {
			in, err := view.Input(view.Params, given.texts(view.Params, args))
			if err != nil {
				return usage(view.Params, err)
			}
			return env.WithPool(command.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				found, err := view.Read(ctx, views.Reader{Pool: pool, Acts: admin.On(pool)}, in)
				switch {
				case err != nil:
					return usage(view.Params, err)
				case asJSON:
					return env.PrintJSON(found.Document)
				}
				page := env.Page()
				found.Print(page)
				return page.Err()
			})
		},
	}
	given.bind(env, command, view.Params)
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

// use returns the verb of a command with its placeholders.
func use(command string, all []param.Param) string {
	words := strings.Fields(command)
	return strings.Join(append(words[len(words)-1:], placeholders(all)...), " ")
}

func examples(lines []string) (text string) {
	for _, line := range lines {
		text += "\n  " + programName + " " + line
	}
	return strings.TrimPrefix(text, "\n")
}

func placeholders(all []param.Param) (names []string) {
	for _, p := range all {
		if p.Arg != "" {
			names = append(names, p.Arg)
		}
	}
	return names
}

// takes requires one argument per positional parameter.
func takes(all []param.Param) cobra.PositionalArgs {
	names := placeholders(all)
	return func(command *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names) || slices.Contains(args, ""):
			return cli.Usagef("%s what? Name %s", command.Name(), strings.Join(names, " and "))
		case len(args) > len(names):
			return cli.Usagef("unexpected %q", args[len(names)])
		}
		return nil
	}
}

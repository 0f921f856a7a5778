package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/surface/table"
)

// completeTimeout limits how long a completion waits for the database.
const completeTimeout = 2 * time.Second

// Names looks up ids for completion. It may use the prefix to read less.
type Names func(ctx context.Context, pool *pgxpool.Pool, prefix string) ([]string, error)

// Complete returns a completion from the ids in the database. It is empty if the database does not answer.
func (e *Env) Complete(names Names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		var found []string
		err := e.WithPool(ctx, func(ctx context.Context, pool *pgxpool.Pool) (err error) {
			found, err = names(ctx, pool, prefix)
			return err
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		// In completions a tab begins a description and a line feed another word.
		found = slices.DeleteFunc(found, func(id string) bool {
			return table.Visible(id) != id || !strings.HasPrefix(id, prefix)
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteOne is Complete for a command with one argument.
func (e *Env) CompleteOne(names Names) cobra.CompletionFunc {
	complete := e.Complete(names)
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, prefix)
	}
}

// CompleteFlag sets the completion of a flag. It panics if the command does not have the flag.
func CompleteFlag(command *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}

// Choices returns a completion from fixed words.
func Choices[T ~string](words []T) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, prefix string) (found []string, _ cobra.ShellCompDirective) {
		for _, word := range words {
			if strings.HasPrefix(string(word), prefix) {
				found = append(found, string(word))
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

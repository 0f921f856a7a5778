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

// completeTimeout is how long a shell that completes a word waits for the database.
const completeTimeout = 2 * time.Second

// Names looks up ids, for completion. It need not heed the prefix, but may save work by it.
type Names func(ctx context.Context, pool *pgxpool.Pool, prefix string) ([]string, error)

// Complete makes a completion of the ids that the database has now. A database that does not answer completes nothing.
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
		// A tab would begin a description, a line feed another word: such ids are not typed by hand.
		found = slices.DeleteFunc(found, func(id string) bool {
			return table.Visible(id) != id || !strings.HasPrefix(id, prefix)
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteOne is Complete for a command that takes one such argument.
func (e *Env) CompleteOne(names Names) cobra.CompletionFunc {
	complete := e.Complete(names)
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, prefix)
	}
}

// CompleteFlag gives a flag of the command a completion. A flag that is not there is a mistake in this program.
func CompleteFlag(command *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}

// Choices completes one of a few words.
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

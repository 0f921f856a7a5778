// Package command has the operators' commands: they show how it stands with a database, let operators act on
// it, and carry events in and out.
//
//	tidemark outbox      what remains to be done, by status
//	tidemark failed      failed campaigns of projections: see them, requeue, retry, resolve
//	tidemark campaign    one campaign: show, replay, pause
//	tidemark projection  projections: list, pause, remove
//	tidemark group       consumer groups: list, pause, remove
//	tidemark gaps        campaigns that nothing would bring to their heads
//	tidemark lag         how far groups and projections are behind
//	tidemark publisher   what is published: see, pause, move, try, replay; what is parked
//	tidemark workers     workers: see, drain
//	tidemark operation   what workers do bit by bit for the API and the pages: see, abort
//	tidemark events      events as lines of JSON: import, export
//	tidemark audit       what operators did, and why
//	tidemark token       who may use the pages and the API of workers: create, list, revoke
//
// Each command is in docs/reference/commands.md. They work on the database in TIDEMARK_DATABASE_URL;
// without that, on the checkout's private server.
package command

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Options is what a program has besides the operators' commands.
type Options struct {
	Name     string           // of the program
	Sinks    []publisher.Kind // that "publisher test-send" and "publisher replay" can send to
	Commands []*cobra.Command // besides the operators' commands
}

// Main runs the command line of the process and returns the exit code for [os.Exit].
func Main(opts Options) int {
	ctx, stop := cli.Context()
	defer stop()
	return perform(ctx, cli.Standard(devpg.URL), opts, os.Args[1:])
}

// perform runs one command line, in whichever form it is written.
func perform(ctx context.Context, env *cli.Env, opts Options, args []string) int {
	root := newRoot(env, opts)
	env.Known = answerTo
	args, err := fromFlagForm(args)
	if err != nil {
		return cli.Fail(ctx, root, env, err)
	}
	return cli.Run(ctx, root, env, args)
}

// answerTo answers an error as [operator.AnswerTo] has it.
func answerTo(command *cobra.Command, err error) (code int, next string) {
	answer, ok := operator.AnswerTo(err)
	if !ok {
		return 0, ""
	}
	if answer.Next == "" {
		return exitCode(answer), ""
	}
	next = "tidemark " + strings.Replace(answer.Next, "NOUN", command.Parent().Name(), 1)
	for _, name := range strings.Fields(answer.With) {
		value := argument(command, strings.ToUpper(name))
		if flag := command.Flags().Lookup(strings.ToLower(name)); flag != nil && flag.Changed {
			value = flag.Value.String()
		}
		switch {
		case value == "":
		case name == strings.ToUpper(name):
			next += " " + table.Quote(value)
		default:
			next += " --" + name + " " + table.Quote(value)
		}
	}
	return exitCode(answer), next
}

// argument answers the argument that the command's line of use calls name, "NAME" the first; empty: it was not given.
func argument(command *cobra.Command, name string) string {
	words := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(command.Use))
	i := slices.Index(words, name) - 1
	if name == "NAME" {
		i = 0
	}
	if i < 0 {
		return ""
	}
	return command.Flags().Arg(i)
}

// exitCode is the exit code for an answer.
func exitCode(a operator.Answer) int {
	switch a.Status {
	case http.StatusBadRequest:
		return cli.ExitUsage
	case http.StatusConflict:
		return cli.ExitConflict
	}
	if slices.Contains(a.Errs, admin.ErrDeclined) {
		return cli.ExitDeclined
	}
	return cli.ExitFailed
}

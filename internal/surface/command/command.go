// Package command has the operators' commands. It generates most of them from the views and acts of
// package operator. docs/reference/commands.md lists them all.
//
// Commands use the database in TIDEMARK_DATABASE_URL, or with --dev the checkout's private server.
package command

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/archive"
)

// Options configures a program with the operators' commands.
type Options struct {
	Name     string           // of the program
	Commands []*cobra.Command // besides the operators' commands
	Archives archive.Kinds    // besides folders
	Server   cli.Server       // for --dev
}

// Main runs the command line of the process and returns the exit code for [os.Exit].
func Main(opts Options) int {
	ctx, stop := cli.Context()
	defer stop()
	env := cli.Standard(opts.Server)
	env.Archives = opts.Archives
	return perform(ctx, env, opts, os.Args[1:])
}

// perform runs one command line, in noun form or flag form.
func perform(ctx context.Context, env *cli.Env, opts Options, args []string) int {
	root := newRoot(env, opts)
	env.Known = answerTo
	args, err := fromFlagForm(args)
	if err != nil {
		return cli.Fail(ctx, root, env, err)
	}
	return cli.Run(ctx, root, env, args)
}

// answerTo returns the exit code and the next command for an error, from [operator.AnswerTo].
func answerTo(command *cobra.Command, err error) (code int, next string) {
	answer, ok := operator.AnswerTo(err)
	if !ok {
		return 0, ""
	}
	if answer.Next == "" {
		return exitCode(answer, err), ""
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
	return exitCode(answer, err), next
}

// argument returns the argument with the placeholder name; "": not given. NAME is the first argument.
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

func exitCode(a operator.Answer, err error) int {
	switch a.Status {
	case http.StatusBadRequest:
		return cli.ExitUsage
	case http.StatusConflict:
		return cli.ExitConflict
	}
	if errors.Is(err, admin.ErrDeclined) {
		return cli.ExitDeclined
	}
	return cli.ExitFailed
}

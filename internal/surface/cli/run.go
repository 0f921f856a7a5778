package cli

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/redact"
)

// Run executes the command that args name below root and returns the exit code. It writes errors with
// the next command to env.Err.
func Run(ctx context.Context, root *cobra.Command, env *Env, args []string) int {
	root.SetArgs(args)
	root.PersistentFlags().BoolVar(&env.Dev, devFlag, env.Dev,
		"use a private Postgres under .tidemark/, started if necessary; for development")
	root.Version = Version()
	root.SetIn(env.In)
	root.SetOut(env.Out) // requested help is data
	root.SetErr(env.Err)
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &UsageError{err} })
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	return Fail(ctx, command, env, err)
}

// Fail writes err with the next command to env.Err and returns the exit code.
func Fail(ctx context.Context, command *cobra.Command, env *Env, err error) int {
	env.Note("%s: %s", command.Root().Name(), message(ctx, err))
	code, next := ExitCode(err), next(command, err)
	if env.Known != nil && code != ExitUsage {
		known, hint := env.Known(command, err)
		next = cmp.Or(next, hint)
		if code == ExitFailed && known != 0 {
			code = known
		}
	}
	if next != "" {
		env.Note("try: %s", next)
	}
	return code
}

// message returns the redacted text of err. After Ctrl-C it is only "interrupted".
func message(ctx context.Context, err error) string {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return redact.Error(err)
}

// next returns the next command after err; "": none.
func next(command *cobra.Command, err error) string {
	var hinted interface{ Next() string }
	var usage *UsageError
	switch {
	case errors.As(err, &hinted):
		return hinted.Next()
	case errors.As(err, &usage):
		return command.CommandPath() + " --help"
	case ExitCode(err) == ExitUnavailable:
		return `psql "$TIDEMARK_DATABASE_URL" -c 'SELECT 1'`
	default:
		return ""
	}
}

// Noun returns a command that only groups others, such as "outbox" in "outbox report".
func Noun(name, short string, verbs ...*cobra.Command) *cobra.Command {
	noun := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknown(cmd, args[0])
			}
			return Usagef("%s what? There are %s", cmd.Name(), choices(cmd))
		},
	}
	noun.AddCommand(verbs...)
	return noun
}

// unknown returns the error for an unknown subcommand, with similar names.
func unknown(command *cobra.Command, name string) error {
	const distance = 2 // edits
	command.SuggestionsMinimumDistance = distance
	if near := command.SuggestionsFor(name); len(near) > 0 {
		return Usagef("unknown command %q: did you mean %s? There are %s", name, strings.Join(near, " or "),
			choices(command))
	}
	return Usagef("unknown command %q: there are %s", name, choices(command))
}

func choices(command *cobra.Command) string {
	var names []string
	for _, c := range command.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return strings.Join(names, ", ")
}

// NoArgs refuses arguments. For a command with subcommands an argument is an unknown subcommand.
func NoArgs(command *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case command.HasAvailableSubCommands():
		return unknown(command, args[0])
	default:
		return Usagef("unexpected %q", args[0])
	}
}

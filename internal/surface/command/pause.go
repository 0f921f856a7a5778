package command

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// pausable is a noun whose things can be paused.
type pausable struct {
	noun    string
	example string
	what    string // what stops
	names   cli.Names
	group   *string // the value of --group, for nouns that have it
	target  func(ctx context.Context, pool *pgxpool.Pool, name string) (pause.Target, error)
}

func newPause(env *cli.Env, p pausable) *cobra.Command {
	var (
		act    cli.Act
		lasts  time.Duration
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "pause NAME",
		Short: fmt.Sprintf("Stop a %s until it is resumed, or for a time", p.noun),
		Long: fmt.Sprintf("Stop a %s until it is resumed, or for a time. %s Nothing is lost. Paused again, it gets the "+
			"new reason and the new end.", p.noun, p.what),
		Example: fmt.Sprintf(`  tidemark %[1]s pause %[2]s --reason 'deploy of 1.4.2'
  tidemark %[1]s pause %[2]s --for 2h --reason 'deploy of 1.4.2'`, p.noun, p.example),
		Args: oneName(p.noun),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				target, err := p.target(ctx, pool, args[0])
				if err != nil {
					return err
				}
				outcome, err := admin.On(pool).Pause(ctx, by(act), target, lasts)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(outcome)
				}
				until := "until it is resumed"
				if lasts > 0 {
					until = "for " + cli.Age(lasts)
				}
				env.Note("%s is paused %s; to go on: tidemark %s resume %s", target, until, p.noun,
					cli.Quote(args[0])+p.inGroup())
				return nil
			})
		},
	}
	p.bind(env, command, &act, &asJSON)
	cli.BindDuration(command.Flags(), &lasts, "for", "how long, such as 90s, 2h or 7d (default until it is resumed)")
	return command
}

func newResume(env *cli.Env, p pausable) *cobra.Command {
	var (
		act    cli.Act
		asJSON bool
	)
	command := &cobra.Command{
		Use:     "resume NAME",
		Short:   fmt.Sprintf("Have a %s that was paused go on", p.noun),
		Example: fmt.Sprintf(`  tidemark %s resume %s --reason deployed`, p.noun, p.example),
		Args:    oneName(p.noun),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				target, err := p.target(ctx, pool, args[0])
				if err != nil {
					return err
				}
				outcome, err := admin.On(pool).Resume(ctx, by(act), target)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(outcome)
				}
				env.Note("%s goes on: tidemark lag --watch shows it catch up.", target)
				return nil
			})
		},
	}
	p.bind(env, command, &act, &asJSON)
	return command
}

func (p pausable) bind(env *cli.Env, command *cobra.Command, act *cli.Act, asJSON *bool) {
	flags := command.Flags()
	act.BindOne(flags)
	flags.BoolVar(asJSON, "json", false, "write JSON")
	command.ValidArgsFunction = env.CompleteOne(p.names)
	if p.group != nil {
		flags.StringVar(p.group, "group", defaultGroup, "the consumer group that it concerns")
		cli.CompleteFlag(command, "group", env.Complete(groupNames))
	}
}

// inGroup answers the flag that names the group, where it must be told.
func (p pausable) inGroup() string {
	if p.group == nil || *p.group == defaultGroup {
		return ""
	}
	return " --group " + cli.Quote(*p.group)
}

// oneName wants exactly one argument.
func oneName(noun string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return cli.Usagef("%s which %s? Name one", cmd.Name(), noun)
		}
		return nil
	}
}

// pauseCell says how long something is paused and why; empty: it is not.
func pauseCell(pauses []pause.Pause, is func(pause.Target) bool) cli.Cell {
	for _, p := range pauses {
		if !is(p.Target) {
			continue
		}
		return cli.Cell{Text: pauseText(p), Tone: cli.Warning}
	}
	return cli.Text("")
}

// pauseText says who has paused something, until when and why.
func pauseText(p pause.Pause) string {
	text := "by " + p.By
	if !p.ExpiresAt.IsZero() {
		text += " until " + stamp(&p.ExpiresAt)
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

const (
	// retryAsks is how many events are tried again without asking. What is resolved is never
	// published: it asks, unless --campaign and --seq name the event.
	retryAsks = 100
)

// chosenParked is how many events an act was done to or, in a dry run, would be; Parked are the
// first ones of a dry run.
type chosenParked struct {
	Count  int64
	Parked []publications.Parked
}

func newParkedRetry(env *cli.Env) *cobra.Command {
	a := &parkedAct{
		kind: admin.ActRetryParked, verb: "retry", done: "retried", asks: retryAsks,
		do: (*admin.Acts).RetryAllParked,
	}
	return a.command(env, &cobra.Command{
		Use:   "retry",
		Short: "Have refused events tried again at once, with all their attempts before them",
		Long: `Have refused events tried again at once, with all their attempts before them: what to do once
the other side is mended. Campaigns that wait behind them catch up in order. Beyond 100 events it asks.`,
		Example: `  tidemark publisher parked retry --publisher archive --campaign oak
  tidemark publisher parked retry --publisher archive --message 'too large' --dry-run
  tidemark publisher parked retry --all --yes --reason 'the limit is 8 MB now'`,
	})
}

func newParkedResolve(env *cli.Env) *cobra.Command {
	a := &parkedAct{
		kind: admin.ActResolveParked, verb: "leave out", done: "resolved", asks: resolveAsks, reason: true,
		do: (*admin.Acts).ResolveAllParked,
	}
	return a.command(env, &cobra.Command{
		Use:   "resolve",
		Short: "Leave refused events out, for good",
		Long: `Leave refused events out, for good: they are never published to that publisher, and campaigns
that wait behind them go on. It asks for the number of events, unless --campaign and --seq name the one.
A reason is needed.`,
		Example: `  tidemark publisher parked resolve --publisher archive --campaign oak --seq 2 --reason 'test data'
  tidemark publisher parked resolve --publisher archive --type noted --dry-run --reason 'test data, see #812'`,
	})
}

// parkedAct is an act on the events that a filter chooses.
type parkedAct struct {
	kind       admin.Kind
	verb, done string
	asks       int64 // how many events need no confirmation
	reason     bool  // it needs one
	do         func(*admin.Acts, context.Context, admin.Request, publications.ParkedFilter) (int64, error)

	filter parkedFilter
	act    cli.Act
	asJSON bool
}

func (a *parkedAct) command(env *cli.Env, command *cobra.Command) *cobra.Command {
	command.Args = cli.NoArgs
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.filter.check(true, cmd.Flags().Changed("limit")); err != nil {
			return err
		}
		if a.reason {
			if err := a.act.NeedReason(); err != nil {
				return err
			}
		}
		return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
			return a.run(ctx, env, pool)
		})
	}
	a.filter.bind(env, command, true)
	a.act.BindMany(command.Flags())
	command.Flags().BoolVar(&a.asJSON, "json", false, "write JSON")
	return command
}

// run counts, asks, acts on no more events than were counted, and tells.
func (a *parkedAct) run(ctx context.Context, env *cli.Env, pool *pgxpool.Pool) error {
	n, err := publications.CountParked(ctx, pool, a.filter.ParkedFilter)
	if err != nil {
		return err
	}
	if a.act.DryRun {
		return a.preview(ctx, env, pool, n)
	}
	var got int64
	if n > 0 {
		named := n == 1 && a.filter.CampaignID != "" && a.filter.Seq > 0
		if n > a.asks && !named {
			if err := env.Confirm(ctx, cli.Confirmation{
				What: fmt.Sprintf("%s %s", a.verb, events(n)), Type: fmt.Sprint(n),
				Yes: a.act.Yes,
			}); err != nil {
				return err
			}
		}
		f := a.filter.ParkedFilter
		f.Limit = int(n)
		if got, err = a.do(admin.On(pool), ctx, by(a.act), f); err != nil && !errors.Is(err, publications.ErrNotFound) {
			return err
		}
	}
	if a.asJSON {
		err = printAct(env, a.kind, false, chosenParked{Count: got})
	} else if err = nil; n == 0 {
		env.Note("No event was %s: none that was refused is chosen by this.", a.done)
	} else {
		env.Note("%s %s; what becomes of it: tidemark publisher parked list", events(got), a.done)
	}
	switch {
	case err != nil || got == n:
		return err
	case got == 0:
		return cli.Exitf(cli.ExitConflict,
			"none of %s was %s: somebody else is changing them at this moment; look at them again", events(n), a.done)
	default:
		return cli.Exitf(cli.ExitPartial,
			"%d of %s were %s: somebody else was changing the others at this moment; the same command takes what is left", got,
			events(n), a.done)
	}
}

func (a *parkedAct) preview(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, n int64) error {
	f := a.filter.ParkedFilter
	f.Limit = previewRows
	list, err := publications.ListParked(ctx, pool, f)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(p publications.Parked) bool { return p.Status == "draining" })
	list = list[:min(int64(len(list)), n)]
	if a.asJSON {
		return printAct(env, a.kind, true, chosenParked{n, list})
	}
	env.Note("%s would be %s; nothing was changed.", events(n), a.done)
	if len(list) == 0 {
		return nil
	}
	return env.PrintTable(operator.ViewNamed("listParked").Table(list))
}

func events(n int64) string { return counted(n, "event") }

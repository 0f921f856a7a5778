package command

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// rebuild is what the command line asks of a rebuild.
type rebuild struct {
	name                 string
	act                  cli.Act
	version              int
	share                float64
	allowFailed          int64
	keep                 time.Duration
	verify               int
	ignore               []string
	pause, resume, abort bool
	wait, asJSON         bool
}

func newProjectionRebuild(env *cli.Env) *cobra.Command {
	var r rebuild
	command := &cobra.Command{
		Use:   "rebuild NAME",
		Short: "Build a projection's tables anew beside those that are read, and exchange the two when all is caught up",
		Long: `Build a projection's tables anew beside those that are read, from the first event of each
campaign, and exchange the two when nothing is left behind. All workers that have the code take part;
readers and live work go on. The tables that are replaced are kept for a while: projection rollback puts
them back. A worker that starts with a higher version of a projection begins its rebuild by itself. For a
rebuild under way the command changes the options that are given, and has the exchange tried again. While
it lasts its pairs are those of the projection NAME~next. --abort asks for the projection's name.`,
		Example: `  tidemark projection rebuild scores --wait --reason 'totals were off by one'
  tidemark projection rebuild scores --max-share 0.2
  tidemark projection rebuild scores --pause
  tidemark projection rebuild scores --abort --reason 'version 3 is wrong'`,
		Args: oneName("projection"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.name = args[0]
			if err := oneOf(cmd.Flags(), "pause", "resume", "abort", "wait"); err != nil {
				return err
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				return r.run(ctx, env, pool, cmd.Flags())
			})
		},
	}
	command.ValidArgsFunction = env.CompleteOne(projectionNames)
	flags := command.Flags()
	r.act.BindTyped(flags)
	flags.IntVar(&r.version, "version", 0, "the version to build (default the highest that a worker has)")
	flags.Float64Var(&r.share, "max-share", 0.5, "the share of each worker's time that goes to rebuilds, at most")
	flags.Int64Var(&r.allowFailed, "allow-failed", 0,
		"exchange the tables although so many campaigns are failed or dead in the new ones")
	cli.BindDuration(flags, &r.keep, "keep",
		"how long the tables that are replaced are kept, such as 90m, 24h or 7d (default 24h)")
	flags.IntVar(&r.verify, "verify-sample", 1000,
		"campaigns, at random, whose new rows are compared with their events before the tables are exchanged; 0: none")
	flags.StringSliceVar(&r.ignore, "verify-ignore", nil,
		"columns that may differ then, such as one that holds the time of the write: column or table.column")
	flags.BoolVar(&r.pause, "pause", false, "stop the rebuild for now")
	flags.BoolVar(&r.resume, "resume", false, "have the rebuild go on")
	flags.BoolVar(&r.abort, "abort", false, "end the rebuild and remove all of it")
	flags.BoolVar(&r.wait, "wait", false, "show progress until the tables are exchanged")
	flags.BoolVar(&r.asJSON, "json", false, "write JSON; with --wait, a line each second too")
	return command
}

func (r rebuild) run(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, flags *pflag.FlagSet) error {
	found, err := registered(ctx, pool, r.name)
	if err != nil {
		return err
	}
	acts := admin.On(pool)
	switch {
	case r.abort:
		c := cli.Confirmation{
			What: "abort the rebuild of projection " + r.name + " and remove what it has built",
			Type: r.name, Look: "tidemark projection list",
		}
		request, err := typed(ctx, env, r.act, c)
		if err != nil {
			return err
		}
		outcome, err := acts.AbortRebuild(ctx, request, r.name)
		if err != nil {
			return err
		}
		return r.tell(env, outcome, "The rebuild of projection %s is aborted, nothing of it is left.")
	case r.pause:
		outcome, err := acts.PauseRebuild(ctx, by(r.act), found.Group, r.name, 0)
		if errors.Is(err, pause.ErrUnknown) {
			err = projector.ErrNoRebuild
		}
		if err != nil {
			return err
		}
		return r.tell(env, outcome,
			"The rebuild of projection %[1]s is paused; to go on: tidemark projection rebuild %[1]s --resume")
	case r.resume:
		outcome, err := acts.ResumeRebuild(ctx, by(r.act), found.Group, r.name)
		if err != nil {
			return err
		}
		return r.tell(env, outcome,
			"The rebuild of projection %[1]s goes on; to see how far it is: tidemark projection rebuild %[1]s --wait")
	}
	started, err := acts.StartRebuild(ctx, by(r.act), r.name, r.options(flags))
	if err != nil {
		return err
	}
	var what struct{ Begun bool }
	if err := json.Unmarshal(started.Detail, &what); err != nil {
		return err
	}
	replay{request: deferred.ReplayRequest{Group: found.Group}}.warn(ctx, env, pool)
	if r.wait {
		return r.await(ctx, env, pool)
	}
	if what.Begun {
		return r.tell(env, started,
			"Workers rebuild projection %[1]s from now on; to see how far they are: tidemark projection rebuild %[1]s --wait")
	}
	return r.tell(env, started,
		"Projection %[1]s is being rebuilt; to see how far it is: tidemark projection rebuild %[1]s --wait")
}

// oneOf refuses more than one of the flags.
func oneOf(flags *pflag.FlagSet, names ...string) error {
	var given []string
	for _, name := range names {
		if flags.Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return cli.Usagef("%s: use one of them", strings.Join(given, ", "))
	}
	return nil
}

// options are those that were given.
func (r rebuild) options(flags *pflag.FlagSet) (o projector.RebuildOptions) {
	if flags.Changed("version") {
		o.Version = &r.version
	}
	if flags.Changed("max-share") {
		o.MaxShare = &r.share
	}
	if flags.Changed("allow-failed") {
		o.AllowFailed = &r.allowFailed
	}
	if flags.Changed("keep") {
		o.Keep = &r.keep
	}
	if flags.Changed("verify-sample") {
		o.Verify = &r.verify
	}
	if flags.Changed("verify-ignore") {
		o.Ignore = r.ignore
	}
	return o
}

package command

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// minInterval keeps a watch from being a load of its own.
const minInterval = 100 * time.Millisecond

// watch says whether, and how often, something is looked at again.
type watch struct {
	on       bool
	interval time.Duration
}

func (w *watch) bind(flags *pflag.FlagSet) {
	flags.BoolVar(&w.on, "watch", false, "go on until Ctrl-C")
	flags.DurationVar(&w.interval, "interval", 2*time.Second, "how long to wait between looks, with --watch")
}

func (w *watch) check() error {
	if w.interval < minInterval {
		return cli.Usagef("--interval %s: at least %s", w.interval, minInterval)
	}
	return nil
}

// watchable lets the command of a view without parameters go on.
func watchable(env *cli.Env, command *cobra.Command, view *operator.View) {
	var w watch
	show, flags := command.RunE, command.Flags()
	w.bind(flags)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := w.check(); err != nil {
			return err
		}
		if !w.on {
			return show(cmd, args)
		}
		asJSON, err := flags.GetBool("json")
		if err != nil {
			return err
		}
		in, err := view.Input(nil, nil)
		if err != nil {
			return err
		}
		return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
			return env.Watch(ctx, w.interval, func(ctx context.Context, frame *cli.Env) error {
				found, err := view.Read(ctx, operator.Reader{Pool: pool}, in)
				if err != nil {
					return err
				}
				if asJSON {
					return frame.PrintJSONLine(found.Document)
				}
				page := frame.Page()
				page.At = time.Now().UTC().Format(time.RFC3339)
				found.Print(page)
				return page.Err()
			})
		})
	}
}

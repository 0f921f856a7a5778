package command

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// minInterval keeps a watch from being a load of its own.
const minInterval = 100 * time.Millisecond

// newLag is the command of its view, which can be watched.
func newLag(env *cli.Env) *cobra.Command {
	var (
		watch    bool
		interval time.Duration
	)
	command := newView(env, "listLag")
	flags, show := command.Flags(), command.RunE
	flags.BoolVar(&watch, "watch", false, "go on until Ctrl-C")
	flags.DurationVar(&interval, "interval", 2*time.Second, "how long to wait between looks, with --watch")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if interval < minInterval {
			return cli.Usagef("--interval %s: at least %s", interval, minInterval)
		}
		if !watch {
			return show(cmd, args)
		}
		asJSON, err := flags.GetBool("json")
		if err != nil {
			return err
		}
		return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
			return watchLag(ctx, env, pool, interval, asJSON)
		})
	}
	return command
}

func watchLag(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, interval time.Duration, asJSON bool) error {
	view := operator.ViewNamed("listLag")
	in, err := view.Input(nil, nil)
	if err != nil {
		return err
	}
	return env.Watch(ctx, interval, func(ctx context.Context, frame *cli.Env) error {
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
}

package command

import (
	"context"
	"errors"
	"io"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/ndjson"
	"github.com/tidemark-go/tidemark/internal/progress"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/event"
)

func newEventsExport(env *cli.Env) *cobra.Command {
	var cfg ndjson.ExportConfig
	var after string
	where := config.Archive{Kinds: env.Archives}
	var set *config.Set
	command := &cobra.Command{
		Use:   "export",
		Short: "Write events to stdout in journal order, in the format of import",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var wrong error
			if cfg.After, wrong = event.ParseCursor(after); wrong != nil {
				return cli.Usagef("--after: %w", wrong)
			}
			// A closed pipe must return an error instead of killing the process, which may have a server to stop.
			signal.Ignore(syscall.SIGPIPE)
			err := set.Finish()
			var through event.Archive
			if err == nil {
				through, err = where.Reader()
			}
			if err != nil {
				return &cli.UsageError{Err: err}
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				return export(ctx, env, feed.Through{Querier: pool, Archive: through}, cfg)
			})
		},
	}
	flags := command.Flags()
	set = config.NewSet(flags)
	config.ArchiveSetting(set, &where)
	flags.StringVar(&cfg.CampaignID, "campaign", "", "only events of this campaign")
	flags.StringArrayVar(&cfg.Types, "type", nil, "only events of this type; may be given several times")
	flags.StringVar(&after, "after", "0", "only events past this cursor, a position or what an earlier export named")
	return command
}

func export(ctx context.Context, env *cli.Env, pool event.Querier, cfg ndjson.ExportConfig) error {
	floor, err := feed.Floor(ctx, pool)
	if err != nil {
		return err
	}
	seen := env.Err
	if env.Terminal {
		seen = io.Discard // the events on the terminal show the progress
	}
	first := cfg.After.Position
	meter := progress.New(seen, "positions", floor-first)
	cfg.Progress = func(position, events int64) { meter.Set(position-first, events) }
	done, err := ndjson.Export(ctx, pool, env.Out, cfg)
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	if reset, ok := errors.AsType[*event.ResetError](err); ok {
		return cli.Hint(cli.Exitf(cli.ExitReset, "--after: %w", err), "tidemark events export --after %s", reset.Go)
	}
	if err != nil {
		return err
	}
	meter.Done()
	env.Note("%s up to position %d; for later events: --after %s", table.Count(done.Events, "event"),
		done.Position.Position, done.Position)
	return nil
}

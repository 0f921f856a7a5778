package demo

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/examples/tabletop"
	"github.com/tidemark-go/tidemark/internal/app"
	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

const interrupted = 130

// NewCommand returns the demo command. Its workers run the same program. Without TIDEMARK_DATABASE_URL it uses the
// Postgres that server starts.
func NewCommand(server cli.Server) *cobra.Command {
	config := Config{
		Server: server,
		Out:    os.Stdout,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	var seconds float64
	command := &cobra.Command{
		Use:   "demo",
		Short: "See it work: three workers, live load, a worker killed halfway, and a check of every row",
		Long: `See it work: it brings the schema up to date, starts three workers, appends events of games at a steady
rate, kills one worker halfway, and in the end compares every row with a fold of the whole journal. It runs on the
database of TIDEMARK_DATABASE_URL, else on a private Postgres under .tidemark/. Tables and events stay there.`,
		Example: `  tidemark demo
  tidemark demo --seconds 5 --rate 500`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if text, set := os.LookupEnv("DEMO_SECONDS"); set && !cmd.Flags().Changed("seconds") {
				var err error
				if seconds, err = strconv.ParseFloat(text, 64); err != nil {
					return cli.Usagef("DEMO_SECONDS is %q, it must be a number of seconds", text)
				}
			}
			config.Length = time.Duration(seconds * float64(time.Second))
			if err := config.validate(); err != nil {
				return &cli.UsageError{Err: err}
			}
			var err error
			if config.DatabaseURL = strings.TrimSpace(os.Getenv(cli.URLVariable)); config.DatabaseURL != "" && cli.Dev(cmd) {
				return &cli.UsageError{Err: devpg.Choose(config.DatabaseURL, true)}
			}
			if config.Program, err = os.Executable(); err != nil {
				return fmt.Errorf("find the program of the workers: %w", err)
			}
			return show(cmd, config)
		},
	}
	command.Flags().Float64Var(&seconds, "seconds", 30, "how long to append; also DEMO_SECONDS")
	command.Flags().Float64Var(&config.Rate, "rate", 2000, "events a second; 0: as fast as it goes")
	command.AddCommand(newWorker())
	return command
}

func show(cmd *cobra.Command, config Config) error {
	result, err := Run(cmd.Context(), config)
	switch {
	case cmd.Context().Err() != nil:
		return cli.Exitf(interrupted, "%w", cmd.Context().Err())
	case err != nil:
		return err
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), result); err != nil {
		return err
	}
	if !result.Good() {
		return errors.New("not every event was applied exactly once and correctly")
	}
	return nil
}

// newWorker returns the command of the worker processes: the stock worker with the tabletop
// projections.
func newWorker() *cobra.Command {
	var opts app.Options
	projections, err := tabletop.Projections()
	if err == nil {
		opts.Projections = projections
		opts.Catalogue, err = tabletop.Catalogue()
	}
	opts.Short = "Keep the tabletop read models up to date"
	command := app.NewCommand(opts)
	command.Hidden = true
	if err != nil {
		command.RunE = func(*cobra.Command, []string) error { return err }
	}
	return command
}

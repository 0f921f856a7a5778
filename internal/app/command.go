package app

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/verification"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Options is a worker's configuration besides its settings. pkg/worker documents them.
type Options struct {
	Name        string
	Short       string
	Projections []projection.Projection
	Catalogue   *catalogue.Catalogue
	Sinks       []publisher.Kind
	Archives    archive.Kinds
	Settings    map[string]string
	Logger      *slog.Logger

	BeforeConnect func(context.Context, *pgx.ConnConfig) error

	Server cli.Server // for --dev; nil: devpg.Serve
}

// Settings returns a worker's settings without a command line.
func Settings(opts Options) (*config.Worker, error) {
	settings, set := config.NewWorker(pflag.NewFlagSet(opts.Name, pflag.ContinueOnError))
	settings.Archive.Kinds = opts.Archives
	set.Override(opts.Settings)
	if err := set.Finish(); err != nil {
		return nil, err
	}
	settings.Shown = set.List()
	return settings, nil
}

// NewCommand returns the command that runs a worker until its context ends.
func NewCommand(opts Options) *cobra.Command {
	server := opts.Server
	if server == nil {
		server = devpg.Serve
	}
	cmd := &cobra.Command{
		Use: cmp.Or(opts.Name, "worker"), Args: cli.NoArgs, SilenceUsage: true, SilenceErrors: true,
		Short:            cmp.Or(opts.Short, "Keep read models up to date with the journal, and publish it"),
		PersistentPreRun: func(*cobra.Command, []string) {}, // the worker logs the variables that nothing reads
	}
	cmd.AddCommand(newHealthcheck())
	if len(opts.Projections) > 0 {
		// tidemark's commands of these names know only SQL files. These also know the worker's own
		// projections.
		env := cli.Standard(server)
		env.Archives, env.BeforeConnect = opts.Archives, opts.BeforeConnect
		env.URL = opts.Settings[cli.URLVariable]
		before := cmd.PersistentPreRun
		cmd.PersistentPreRun = func(cmd *cobra.Command, args []string) {
			env.Dev = cli.Dev(cmd)
			before(cmd, args)
		}
		compiled := verification.Compiled{Projections: opts.Projections, Catalogue: opts.Catalogue}
		cmd.AddCommand(
			cli.Noun("projection", "Verify projections", verification.NewVerify(env, compiled)),
			cli.Noun("campaign", "Look at the past of campaigns", verification.NewTravel(env, compiled)...))
	}
	if opts.Catalogue != nil {
		cmd.AddCommand(cli.Noun("catalogue", "Show the worker's event catalogue", newCatalogueWrite(opts.Catalogue)))
	}
	settings, set := config.NewWorker(cmd.Flags())
	settings.Archive.Kinds = opts.Archives
	set.Override(opts.Settings)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := set.Finish(); err != nil {
			return &cli.UsageError{Err: err}
		}
		settings.Shown = set.List()
		tuneMemory(cmd.Context())
		logger := cmp.Or(opts.Logger, NewLogger(cmd.ErrOrStderr(), settings.LogFormat, settings.LogLevel))
		for _, stray := range config.Stray(os.Environ()) {
			logger.WarnContext(cmd.Context(), stray)
		}
		if err := devpg.Choose(settings.DatabaseURL, cli.Dev(cmd)); err != nil {
			return &cli.UsageError{Err: err}
		}
		open, err := openPorts(cmd.Context(), *settings)
		if err != nil {
			return err
		}
		defer open.close()
		url, closeServer, err := cli.Database(cmd.Context(), logger, settings.DatabaseURL, cli.Dev(cmd), server)
		if err != nil {
			return err
		}
		defer func() { _ = closeServer() }()
		settings.DatabaseURL = url
		return run(cmd.Context(), *settings, opts, open, logger)
	}
	return cmd
}

// tuneMemory sets GOGC to mostGarbage and bounds memory until ctx ends. It leaves alone whichever of
// GOGC and GOMEMLIMIT the environment sets.
func tuneMemory(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(mostGarbage)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		go boundMemory(ctx)
	}
}

// Main runs a worker until SIGINT or SIGTERM and returns the exit code. A second signal ends the
// process at once.
func Main(opts Options) int {
	ctx, stop := cli.Context()
	defer stop()
	cmd := NewCommand(opts)
	cmd.CompletionOptions.DisableDefaultCmd = true
	return cli.Run(ctx, cmd, cli.Standard(opts.Server), os.Args[1:])
}

// NewLogger returns a logger. The format is "tint", "json", or "auto": tint on a terminal, else
// JSON. The level is one of slog's, in lower case.
func NewLogger(w io.Writer, format, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	file, isFile := w.(*os.File)
	terminal := isFile && term.IsTerminal(int(file.Fd()))
	if format == "tint" || format == "auto" && terminal {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: l, TimeFormat: time.TimeOnly, NoColor: !terminal ||
			os.Getenv("NO_COLOR") != ""}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l}))
}

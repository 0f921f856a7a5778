package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/archive"
)

// Env is the environment of a command.
type Env struct {
	In  io.Reader
	Out io.Writer // data
	Err io.Writer // messages, progress

	InTerminal bool // In is a terminal: the user can be asked
	Terminal   bool // Out is a terminal
	Color      bool // Out may have colours

	// Logger writes warnings and errors to Err.
	Logger *slog.Logger

	// Check runs after the pool is open, before any work; nil: no check.
	Check func(context.Context, *pgxpool.Pool) error

	// Known returns the exit code and the next command of an error without its own; 0: unknown. May be nil.
	Known func(command *cobra.Command, err error) (code int, next string)

	Open Open

	URL string // of the database; empty: TIDEMARK_DATABASE_URL
	Dev bool   // the command line has --dev: a private Postgres

	Archives archive.Kinds // of the program, besides folders

	BeforeConnect func(context.Context, *pgx.ConnConfig) error // before each connection; nil: nothing
}

// Open returns a pool and a function that closes it.
type Open func(context.Context, *slog.Logger) (pool *pgxpool.Pool, closePool func() error, err error)

// Standard returns the environment of the process. With --dev, commands use the Postgres that start starts.
func Standard(start Server) *Env {
	plain := os.Getenv("NO_COLOR") != ""
	env := &Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal: term.IsTerminal(int(os.Stdin.Fd())),
		Terminal:   term.IsTerminal(int(os.Stdout.Fd())),
	}
	env.Open = func(ctx context.Context, logger *slog.Logger) (*pgxpool.Pool, func() error, error) {
		database := func(ctx context.Context, logger *slog.Logger) (string, func() error, error) {
			return Database(ctx, logger, cmp.Or(env.URL, os.Getenv(URLVariable)), env.Dev, start)
		}
		return OpenAt(database, env.BeforeConnect)(ctx, logger)
	}
	env.Color = env.Terminal && !plain
	env.Logger = slog.New(tint.NewTextHandler(env.Err,
		&tint.Options{Level: slog.LevelWarn, NoColor: plain || !term.IsTerminal(int(os.Stderr.Fd()))}))
	return env
}

// WithPool calls work with a pool and closes it afterwards. It returns an [UnavailableError] if the
// database cannot be reached.
func (e *Env) WithPool(ctx context.Context, work func(context.Context, *pgxpool.Pool) error) (err error) {
	pool, closePool, err := e.Open(ctx, e.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closePool()) }()
	if e.Check != nil {
		if err := e.Check(ctx, pool); err != nil {
			return explain(err)
		}
	}
	return explain(work(ctx, pool))
}

// WithModels calls work with a pool for read models: at url, which must name pool's database, or pool
// itself without one.
func (e *Env) WithModels(
	ctx context.Context, url string, pool *pgxpool.Pool, work func(models *pgxpool.Pool) error,
) error {
	if url == "" {
		return work(pool)
	}
	config, err := session.Parse(url)
	if err != nil {
		return &UsageError{fmt.Errorf("TIDEMARK_MODELS_URL: %w", err)}
	}
	session.Before(config, e.BeforeConnect)
	models, err := connect(ctx, config)
	if err != nil {
		return &UnavailableError{fmt.Errorf("TIDEMARK_MODELS_URL: %w", err)}
	}
	defer models.Close()
	same, err := session.Same(ctx, pool, models)
	if err == nil && !same {
		err = Usagef("TIDEMARK_MODELS_URL names another database than the command works on: give it the same host, port " +
			"and database, with a login of the workers' role")
	}
	if err != nil {
		return err
	}
	return work(models)
}

// OpenAt opens a pool at the URL that database returns. Closing the pool also calls closeServer. The
// error is an [UnavailableError] if the database cannot be reached.
func OpenAt(
	database func(context.Context, *slog.Logger) (url string, closeServer func() error, err error),
	before func(context.Context, *pgx.ConnConfig) error,
) Open {
	return func(ctx context.Context, logger *slog.Logger) (_ *pgxpool.Pool, closePool func() error, err error) {
		url, closeServer, err := database(ctx, logger)
		if _, usage := errors.AsType[*UsageError](err); usage {
			return nil, nil, err
		}
		if err != nil {
			return nil, nil, &UnavailableError{err}
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, closeServer())
			}
		}()
		config, err := session.Parse(url)
		if err != nil {
			return nil, nil, &UsageError{fmt.Errorf("TIDEMARK_DATABASE_URL: %w", err)}
		}
		session.Before(config, before)
		pool, err := connect(ctx, config)
		if err != nil {
			return nil, nil, &UnavailableError{err}
		}
		return pool, func() error {
			pool.Close()
			return closeServer()
		}, nil
	}
}

func connect(ctx context.Context, config *pgxpool.Config) (*pgxpool.Pool, error) {
	ctx, cancel := context.WithTimeout(ctx, session.Within(config.ConnConfig))
	defer cancel()
	return session.Open(ctx, config)
}

// explain adds a remedy to errors of a missing schema and of lock timeouts.
func explain(err error) error {
	var coded *ExitError
	if errors.As(err, &coded) {
		return err
	}
	const undefinedTable, undefinedFunction, undefinedSchema, lockNotAvailable = "42P01", "42883", "3F000", "55P03"
	switch redact.SQLState(err) {
	case undefinedTable, undefinedFunction, undefinedSchema:
		return fmt.Errorf("%w (is the schema up to date? tidemark migrate up)", err)
	case lockNotAvailable:
		return Exitf(ExitConflict,
			"%w: another session is using it, most likely a worker; nothing was changed: try again in a moment", err)
	}
	return err
}

// Page returns a page that writes to the command's outputs.
func (e *Env) Page() *table.Page {
	return &table.Page{Out: e.Out, Notes: e.Err, Terminal: e.Terminal, Color: e.Color}
}

// PrintTable writes one table.
func (e *Env) PrintTable(columns []string, rows [][]table.Cell) error {
	page := e.Page()
	page.Table(columns, rows)
	return page.Err()
}

// PrintJSON writes document, an object with a "version", as indented JSON.
func (e *Env) PrintJSON(document any) error {
	encoder := json.NewEncoder(e.Out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}

// Print writes document as JSON, or what text writes.
func (e *Env) Print(asJSON bool, document any, text func() error) error {
	if asJSON {
		return e.PrintJSON(document)
	}
	return text()
}

// PrintJSONLine writes document as one line of JSON, for commands that write several documents.
func (e *Env) PrintJSONLine(document any) error {
	encoder := json.NewEncoder(e.Out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// Note writes a line to Err.
func (e *Env) Note(format string, args ...any) {
	_, _ = fmt.Fprintf(e.Err, format+"\n", args...)
}

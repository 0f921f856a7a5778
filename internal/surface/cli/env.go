package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

// Env is what a command has around it.
type Env struct {
	In  io.Reader
	Out io.Writer // data
	Err io.Writer // messages, progress

	InTerminal  bool // In is a terminal: a person can be asked
	Terminal    bool // Out is a terminal
	ErrTerminal bool // Err is a terminal
	Color       bool // Out may be coloured

	// Logger writes warnings and errors to Err.
	Logger *slog.Logger

	// Check is asked once a pool is open, before any work; nil: nothing is.
	Check func(context.Context, *pgxpool.Pool) error

	// Known answers the exit code of an error that has none, and what to type next; nil, or 0: nothing is known of it.
	Known func(command *cobra.Command, err error) (code int, next string)

	// Open answers a pool on the database to work on, and what to call when it is no longer needed.
	Open Open
}

// Open answers a pool, and what to call when it is no longer needed.
type Open func(context.Context, *slog.Logger) (pool *pgxpool.Pool, closePool func() error, err error)

// Standard is the environment of the process. database answers a URL, and what to call when it is no longer needed.
func Standard(database func(context.Context, *slog.Logger) (string, func() error, error)) *Env {
	plain := os.Getenv("NO_COLOR") != ""
	env := &Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		Terminal:    term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Open:        OpenAt(database),
	}
	env.Color = env.Terminal && !plain
	env.Logger = slog.New(tint.NewTextHandler(env.Err,
		&tint.Options{Level: slog.LevelWarn, NoColor: plain || !env.ErrTerminal}))
	return env
}

// WithPool calls work with a pool on the database, and gives it back afterwards. It returns an
// [UnavailableError] if the database cannot be reached.
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

// OpenAt opens a pool at the URL that database answers, and calls what that answers besides when
// the pool is closed. A database that cannot be reached is an [UnavailableError].
func OpenAt(database func(context.Context, *slog.Logger) (url string, closeServer func() error, err error)) Open {
	return func(ctx context.Context, logger *slog.Logger) (_ *pgxpool.Pool, closePool func() error, err error) {
		url, closeServer, err := database(ctx, logger)
		if err != nil {
			return nil, nil, &UnavailableError{err}
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, closeServer())
			}
		}()
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			return nil, nil, &UsageError{fmt.Errorf("TIDEMARK_DATABASE_URL: %w", err)}
		}
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

// connectTimeout is how long a command tries to reach the database.
const connectTimeout = 10 * time.Second

func connect(ctx context.Context, config *pgxpool.Config) (*pgxpool.Pool, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return session.Open(ctx, config)
}

// explain says what to do about a database that was never migrated.
func explain(err error) error {
	const undefinedTable, undefinedFunction, undefinedSchema, lockNotAvailable = "42P01", "42883", "3F000", "55P03"
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err
	}
	switch pgErr.Code {
	case undefinedTable, undefinedFunction, undefinedSchema:
		return fmt.Errorf("%w (is the schema up to date? tidemark migrate up)", err)
	case lockNotAvailable:
		return Exitf(ExitConflict,
			"%w: another session is at work on it, most likely a worker in the middle of a group; it was not waited for any "+
				"longer and nothing was changed: run it again in a moment", err)
	default:
		return err
	}
}

// Page begins a page on Out.
func (e *Env) Page() *table.Page {
	return &table.Page{Out: e.Out, Notes: e.Err, Terminal: e.Terminal, Color: e.Color}
}

// PrintTable writes a page with one table.
func (e *Env) PrintTable(columns []string, rows [][]table.Cell) error {
	page := e.Page()
	page.Table(columns, rows)
	return page.Err()
}

// PrintJSON writes document as indented JSON. It should be an object with a "version".
func (e *Env) PrintJSON(document any) error {
	encoder := json.NewEncoder(e.Out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}

// PrintJSONLine writes document as one line of JSON: for a command that reports more than once.
func (e *Env) PrintJSONLine(document any) error {
	encoder := json.NewEncoder(e.Out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// Note writes a line for the person in front of the terminal.
func (e *Env) Note(format string, args ...any) {
	_, _ = fmt.Fprintf(e.Err, format+"\n", args...)
}

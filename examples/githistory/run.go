package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/progress"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
)

//go:embed projections/*.sql
var projections embed.FS

// consumerGroup applies the events. A group of its own does not affect the projections and workers
// of other groups on the same database.
const consumerGroup = "githistory"

// errDifferences reports that the table differs from git's listing. The differences have been
// printed.
var errDifferences = errors.New("the table differs from git's tree")

// options are the options of the command line.
type options struct {
	dir   string
	depth int
	name  string // "": derived from the repository

	remove bool // remove everything except the events instead
	dev    bool // on a private Postgres
}

// runOnDatabase finds or starts a database and runs on it.
func runOnDatabase(ctx context.Context, o options, stdout io.Writer, stderr io.Writer) (err error) {
	url, closeServer, err := devpg.URL(ctx, slog.New(slog.NewTextHandler(stderr,
		&slog.HandlerOptions{Level: slog.LevelWarn})), o.dev)
	if err != nil {
		return fmt.Errorf("find a database: %w", err)
	}
	defer func() { err = errors.Join(err, closeServer()) }()
	if err := migrations.Up(ctx, url); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer pool.Close()
	if o.remove {
		return remove(ctx, pool, stderr)
	}
	return run(ctx, pool, o, stdout, stderr)
}

// run brings the journal and the table up to HEAD and compares the table with git.
func run(ctx context.Context, pool *pgxpool.Pool, o options, stdout io.Writer, stderr io.Writer) error {
	repo, err := openRepository(ctx, o.dir)
	if err != nil {
		return err
	}
	if o.name != "" {
		repo.name = o.name
	}
	names := campaigns{repository: repo.name, depth: o.depth}

	// Register before appending: appends write work items only for known groups.
	tree, err := newProjector(pool)
	if err != nil {
		return err
	}
	if err := tree.Register(ctx); err != nil {
		return fmt.Errorf("register the projection: %w", err)
	}
	if err := appendHistory(ctx, pool, repo, names, stderr); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(stderr, "applying events to the table"); err != nil {
		return fmt.Errorf("report progress: %w", err)
	}
	if _, err := tree.Drain(ctx); err != nil {
		return fmt.Errorf("apply events: %w", err)
	}

	result, err := compare(ctx, pool, repo, names)
	if err != nil {
		return fmt.Errorf("compare the table with git: %w", err)
	}
	if err := result.print(stdout); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	if result.Differences > 0 {
		return errDifferences
	}
	return nil
}

func newProjector(pool *pgxpool.Pool) (*projector.Projector, error) {
	loaded, err := loadProjections()
	if err != nil {
		return nil, fmt.Errorf("load projections: %w", err)
	}
	return projector.New(projector.Config{Pool: pool, ConsumerGroup: consumerGroup, Projections: loaded})
}

func loadProjections() ([]projection.Projection, error) {
	files, err := fs.Sub(projections, "projections")
	if err != nil {
		return nil, err
	}
	return sqlfile.LoadDir(files)
}

func appendHistory(ctx context.Context, pool *pgxpool.Pool, repo *repository, names campaigns, stderr io.Writer) error {
	if repo.head == "" {
		return nil
	}
	a := &appender{pool: pool, repository: repo, translator: translator{campaigns: names}}
	if err := a.resume(ctx); err != nil {
		return err
	}
	total, err := repo.count(ctx, a.read.Commit)
	if err != nil || total == 0 {
		return err
	}
	meter := progress.New(stderr, "commits", total)
	a.report = func(commits, events int64) { meter.Set(commits, events) }
	if err := a.run(ctx); err != nil {
		return err
	}
	meter.Done()
	return nil
}

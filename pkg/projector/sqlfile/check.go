package sqlfile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Check implements [projector.Checker]: it creates the tables in a schema of their own, has Postgres
// parse every statement against them, and rolls both back. Postgres' complaints come back as [*Error]
// with the line they are about, all of them together.
func (f *sqlFile) Check(ctx context.Context, tx pgx.Tx) error {
	scratch, err := tx.Begin(ctx) // a savepoint: takes the schema and the search_path with it
	if err != nil {
		return fmt.Errorf("check %s: %w", f.file, err)
	}
	errs, err := f.checkIn(ctx, scratch)
	if rollbackErr := scratch.Rollback(ctx); err == nil && rollbackErr != nil {
		err = rollbackErr
	}
	if err != nil {
		return fmt.Errorf("check %s: %w", f.file, err)
	}
	return errs.join()
}

// checkIn answers the mistakes it found, or an error if it could not look for them.
func (f *sqlFile) checkIn(ctx context.Context, tx pgx.Tx) (*mistakes, error) {
	errs := &mistakes{file: f.file}
	if _, err := tx.Exec(ctx, registry.QueryMakeScratch); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, registry.QuerySearchScratch, nil); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	if _, err := news(ctx, tx, known, queryTouched); err != nil {
		return nil, err
	}
	for _, statement := range f.tables {
		if _, err := tx.Exec(ctx, statement.text); err != nil {
			// Without this table, what follows would be blamed for its absence.
			return errs, errs.addPostgres(statement, err)
		}
		touched, err := news(ctx, tx, known, queryTouched)
		if err != nil {
			return nil, err
		}
		for _, what := range touched {
			errs.add(statement.line,
				"it creates or changes %s: a file makes tables, indexes, types and functions of its own schema alone, named "+
					"without one", what)
		}
	}
	for _, handler := range f.handlers {
		for _, statement := range handler.statements {
			err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, err := tx.Prepare(ctx, "", statement.text)
				return err
			})
			if err := errs.addPostgres(statement, err); err != nil {
				return nil, err
			}
			reached, err := news(ctx, tx, known, queryReached)
			if err != nil {
				return nil, err
			}
			for _, name := range reached {
				errs.add(statement.line, "%s: name the projection's own tables without a schema", name)
			}
		}
	}
	return errs, nil
}

// news answers what a query finds that is not known yet. It is known from then on.
func news(ctx context.Context, tx pgx.Tx, known map[string]bool, query string) ([]string, error) {
	found, err := rows.All(ctx, tx, pgx.RowTo[string], "", query)
	found = slices.DeleteFunc(found, func(name string) bool { return known[name] })
	for _, name := range found {
		known[name] = true
	}
	return found, err
}

// addPostgres files what Postgres said about the statement. It answers errors that say nothing about it.
func (e *mistakes) addPostgres(statement sqlStatement, err error) error {
	if err == nil {
		return nil
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || failure.IsInfrastructure(err) {
		return err
	}
	reason := pgErr.Message
	for _, more := range []string{pgErr.Detail, pgErr.Hint} {
		if more != "" {
			reason += " (" + strings.TrimSuffix(more, ".") + ")"
		}
	}
	e.list = append(e.list, &Error{File: e.file, Line: statement.lineAt(int(pgErr.Position)), Reason: reason, Err: pgErr})
	return nil
}

// lineAt answers the file's line at a position as Postgres reports it: in characters, from 1; 0 if it
// has none to report.
func (s *sqlStatement) lineAt(position int) int {
	text := s.text
	for ; position > 1 && text != ""; position-- {
		_, size := utf8.DecodeRuneInString(text)
		text = text[size:]
	}
	return s.line + strings.Count(s.text[:len(s.text)-len(text)], "\n")
}

package sqlfile

import (
	"cmp"
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

// Check implements [projector.Checker]. It creates the tables in a scratch schema, has Postgres
// parse every statement against them, and rolls both back. It returns all of Postgres' complaints
// together, each as an [*Error] with its line.
func (f *sqlFile) Check(ctx context.Context, tx pgx.Tx) error {
	scratch, err := tx.Begin(ctx) // a savepoint, so the schema and the search_path are rolled back
	if err != nil {
		return fmt.Errorf("check %s: %w", f.file, err)
	}
	errs, err := f.checkIn(ctx, scratch)
	if err = cmp.Or(err, scratch.Rollback(ctx)); err != nil {
		return fmt.Errorf("check %s: %w", f.file, err)
	}
	return errs.join()
}

// checkIn returns the mistakes it found, or an error if it could not look for them.
func (f *sqlFile) checkIn(ctx context.Context, tx pgx.Tx) (*mistakes, error) {
	errs := &mistakes{file: f.file}
	if err := rows.Do(ctx, tx, "", registry.QueryMakeScratch); err != nil {
		return nil, err
	}
	if err := rows.Do(ctx, tx, "", registry.QuerySearchScratch, nil); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	if _, err := news(ctx, tx, known, queryTouched); err != nil {
		return nil, err
	}
	for _, statement := range f.tables {
		if _, err := tx.Exec(ctx, statement.text); err != nil {
			// Later statements would fail only because this table is missing.
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

// news returns the query's results that are not known yet, and adds them to known.
func news(ctx context.Context, tx pgx.Tx, known map[string]bool, query string) ([]string, error) {
	found, err := rows.All(ctx, tx, pgx.RowTo[string], "", query)
	found = slices.DeleteFunc(found, func(name string) bool { return known[name] })
	for _, name := range found {
		known[name] = true
	}
	return found, err
}

// addPostgres records Postgres' complaint about the statement. It returns errors that are not about it.
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

// lineAt returns the file's line at a position from Postgres, which counts characters from 1; 0 means no position.
func (s *sqlStatement) lineAt(position int) int {
	text := s.text
	for ; position > 1 && text != ""; position-- {
		_, size := utf8.DecodeRuneInString(text)
		text = text[size:]
	}
	return s.line + strings.Count(s.text[:len(s.text)-len(text)], "\n")
}

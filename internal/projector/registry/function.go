package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
)

// SQLSTATEs of a function that cannot be called.
const (
	undefinedFunction     = "42883"
	insufficientPrivilege = "42501"
)

// call is the function by which the database applies a group to a projection.
type call struct{ name, SQL string }

// Install creates k's function in the database if it is missing, and has groups applied by it. A
// projection without one is applied event by event.
func (b *Base) Install(ctx context.Context, k *Projection) error {
	source, ok := k.Projection.(kind.Source)
	if !ok || b.Cfg.NoFunctions || k.Call.Load() != nil || k.uncallable.Load() {
		return nil
	}
	fn := source.Function(b.Cfg.Catalogue.AsStored)
	if fn == nil {
		k.uncallable.Store(true)
		return nil
	}
	var there bool
	err := b.Cfg.Pool.QueryRow(ctx, queryFunctionExists, k.Schema, fn.Name).Scan(&there)
	if err == nil && !there {
		err = b.createFunction(ctx, k, fn)
		if err != nil && !failure.IsInfrastructure(err) {
			// Its statements do not suit a function, or this role may not create one.
			k.uncallable.Store(true)
			b.Cfg.Logger.InfoContext(ctx, "SQL file is run statement by statement: the database refuses its function",
				"projection", k.Name, "reason", err)
			return nil
		}
	}
	if err != nil {
		return err
	}
	k.Call.Store(&call{name: fn.Name, SQL: fmt.Sprintf(queryCallFunction,
		pgx.Identifier{k.Schema, fn.Name}.Sanitize())})
	return nil
}

func (b *Base) createFunction(ctx context.Context, k *Projection, fn *kind.Function) error {
	return pgx.BeginFunc(ctx, b.Cfg.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, QueryMaking, k.Path); err != nil {
			return err
		}
		var answers []bool
		for _, statement := range fn.Statements {
			prepared, err := tx.Prepare(ctx, "", statement)
			if err != nil {
				return err
			}
			answers = append(answers, len(prepared.Fields) > 0)
		}
		_, err := tx.Exec(ctx, fn.Create(pgx.Identifier{k.Schema}.Sanitize(), answers), pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// Calls returns the statements by which the database applies projections. A group keeps those it started with.
func (b *Base) Calls() map[*Projection]string {
	calls := map[*Projection]string{}
	for _, k := range b.Sets {
		if call := k.Call.Load(); call != nil {
			calls[k] = call.SQL
		}
	}
	return calls
}

// Uninstall switches a projection to event by event if its function is gone, or this role may not
// call it. The error names the function, not the projection, because it came before anything ran.
func (b *Base) Uninstall(ctx context.Context, err error) {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Where != "" ||
		(pgErr.Code != undefinedFunction && pgErr.Code != insufficientPrivilege) {
		return
	}
	for _, k := range b.Sets {
		if c := k.Call.Load(); c != nil && strings.Contains(pgErr.Message, c.name) {
			k.uncallable.Store(true)
			k.Call.Store(nil)
			b.Cfg.Logger.WarnContext(ctx, "SQL file is run statement by statement from now on: its function cannot be called",
				"projection", k.Name, "error", err)
		}
	}
}

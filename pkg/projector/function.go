package projector

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/function"
)

// SQLSTATEs of a function that cannot be called.
const (
	undefinedFunction     = "42883"
	insufficientPrivilege = "42501"
)

// call is how the database applies a group to a projection.
type call struct{ name, sql string }

// install makes k's function in the database unless it is there, and has groups applied by it. A projection without one is applied event by event.
func (b *base) install(ctx context.Context, k *known) error {
	source, ok := k.Projection.(function.Source)
	if !ok || b.cfg.NoFunctions || k.call.Load() != nil || k.uncallable.Load() {
		return nil
	}
	fn := source.Function(b.cfg.Catalogue.AsStored)
	if fn == nil {
		k.uncallable.Store(true)
		return nil
	}
	there, err := b.hasFunction(ctx, k, fn)
	if err == nil && !there {
		err = b.createFunction(ctx, k, fn)
		if err != nil && !IsInfrastructure(err) {
			// Its statements are none for a function, or this role may not make any.
			k.uncallable.Store(true)
			b.cfg.Logger.InfoContext(ctx, "SQL file is run statement by statement: the database takes no function of it", "projection", k.name, "reason", err)
			return nil
		}
	}
	if err != nil {
		return err
	}
	k.call.Store(&call{name: fn.Name(), sql: fmt.Sprintf(queryCallFunction, pgx.Identifier{k.schema, fn.Name()}.Sanitize())})
	return nil
}

func (b *base) hasFunction(ctx context.Context, k *known, fn function.Function) (there bool, err error) {
	err = b.cfg.Pool.QueryRow(ctx, queryFunctionExists, k.schema, fn.Name()).Scan(&there)
	return there, err
}

func (b *base) createFunction(ctx context.Context, k *known, fn function.Function) error {
	return pgx.BeginFunc(ctx, b.cfg.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, querySearchPath, k.path); err != nil {
			return err
		}
		var answers []bool
		for _, statement := range fn.Statements() {
			prepared, err := tx.Prepare(ctx, "", statement)
			if err != nil {
				return err
			}
			answers = append(answers, len(prepared.Fields) > 0)
		}
		_, err := tx.Exec(ctx, fn.Create(pgx.Identifier{k.schema}.Sanitize(), answers), pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// calls answers the statements by which the database applies projections. A group keeps to what it began with.
func (b *base) calls() map[*known]string {
	calls := map[*known]string{}
	for _, k := range b.sets {
		if call := k.call.Load(); call != nil {
			calls[k] = call.sql
		}
	}
	return calls
}

// uninstall has a projection applied event by event from now on if its function could not even be called: it is gone, or this role may not call it. Whose it
// was the error does not say, for it came before anything ran; but it names the function.
func (b *base) uninstall(ctx context.Context, err error) {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Where != "" || (pgErr.Code != undefinedFunction && pgErr.Code != insufficientPrivilege) {
		return
	}
	for _, k := range b.sets {
		if c := k.call.Load(); c != nil && strings.Contains(pgErr.Message, c.name) {
			k.uncallable.Store(true)
			k.call.Store(nil)
			b.cfg.Logger.WarnContext(ctx, "SQL file is run statement by statement from now on: its function cannot be called", "projection", k.name, "error", err)
		}
	}
}

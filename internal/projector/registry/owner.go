package registry

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

// Session is a transaction, or a connection within one.
type Session interface {
	rows.Querier
	rows.Execer
}

// Readable returns an [*OwnerError] if the session must not read one of the tables. A missing table is
// readable.
func Readable(ctx context.Context, db rows.Querier, schema string, tables []string) error {
	return readable(ctx, db, schema, tables, false)
}

// HoldReadable is Readable until the transaction ends: it locks the tables as reading does, so that
// nobody puts others in their place. It fails if one of them is missing.
func HoldReadable(ctx context.Context, tx Session, schema string, tables []string) error {
	if len(tables) == 0 {
		return nil
	}
	if err := readable(ctx, tx, schema, tables, false); err != nil {
		return err
	}
	names := slice.Of(tables, func(table string) string { return pgx.Identifier{schema, table}.Sanitize() })
	err := rows.Do(ctx, tx, "", "LOCK TABLE "+strings.Join(names, ", ")+" IN ACCESS SHARE MODE",
		pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return err
	}
	return readable(ctx, tx, schema, tables, true)
}

// Resolvable returns an [*OwnerError] if the session must not look up names in the schema, because roles that may
// do less can have put functions there. It does not ask the registry, which a worker's role writes.
func Resolvable(ctx context.Context, db rows.Querier, schema string) error {
	type found struct{ Schema, Owner, User string }
	refused, err := rows.All(ctx, db, pgx.RowToStructByPos[found], "", queryForeignSchema, schema)
	if err == nil && len(refused) > 0 {
		err = &lookback.OwnerError{Schema: refused[0].Schema, Owner: refused[0].Owner, User: refused[0].User}
	}
	return err
}

func readable(ctx context.Context, db rows.Querier, schema string, tables []string, held bool) error {
	type found struct{ Table, Owner, User string }
	refused, err := rows.All(ctx, db, pgx.RowToStructByPos[found], "", queryForeign, schema, tables, held)
	if err == nil && len(refused) > 0 {
		err = &lookback.OwnerError{Table: refused[0].Table, Owner: refused[0].Owner, User: refused[0].User}
	}
	return err
}

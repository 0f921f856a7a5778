package registry

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// OwnerError is returned instead of reading a table whose owner may do less than the session. Reading
// it can run code of its owner, such as a policy, a cast or a view, with all rights of the session's
// user: SET ROLE is no boundary, because that code can reset it.
type OwnerError struct {
	Table string // with its schema, quoted if need be
	Owner string // its role
	User  string // of the session
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("the table %s belongs to %s, and this session is one of %s, which may do more: reading it would "+
		"lend these rights to %[2]s. Connect with a login that is a member of %[2]s and of no other role, as workers do "+
		"(--models-url or TIDEMARK_MODELS_URL; in Go the pool), or let a worker do it, by the API or the pages",
		e.Table, e.Owner, e.User)
}

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

func readable(ctx context.Context, db rows.Querier, schema string, tables []string, held bool) error {
	refused, err := rows.All(ctx, db, pgx.RowToAddrOfStructByPos[OwnerError], "", queryForeign, schema, tables, held)
	if err == nil && len(refused) > 0 {
		err = refused[0]
	}
	return err
}

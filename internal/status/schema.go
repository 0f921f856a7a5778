package status

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNoSchema is answered by [Reader.Read] where there is nothing to read, instead of a section after the other.
var ErrNoSchema = errors.New("the schema tidemark is missing or of another version: migrate the database")

// undefined says whether a statement names what the database does not have.
func undefined(err error) bool {
	const table, schema, function = "42P01", "3F000", "42883"
	var server *pgconn.PgError
	return errors.As(err, &server) && slices.Contains([]string{table, schema, function}, server.Code)
}

// NoSchema answers [ErrNoSchema] in place of an error that comes of a database that was never migrated, and err else.
func NoSchema(ctx context.Context, pool *pgxpool.Pool, err error) error {
	var there bool
	if !undefined(err) || pool.QueryRow(ctx, queryThere).Scan(&there) != nil || there {
		return err
	}
	return ErrNoSchema
}

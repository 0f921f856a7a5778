package journal

import (
	"context"
	"database/sql"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Tx is the caller's transaction: a pgx.Tx, or what [SQL] makes of a *sql.Tx. Events are in the journal when it
// commits, together with what else it wrote.
type Tx interface {
	event.Querier
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// SQL returns a transaction of database/sql as a [Tx]. All that append take it from any driver of Postgres. What
// reads events takes it from pgx's driver (github.com/jackc/pgx/v5/stdlib), in one round trip more for each page; from
// another it returns an error.
//
// tx stays the caller's: end it as if SQL did not exist.
func SQL(tx *sql.Tx) Tx { return &rows.SQL{Tx: tx} }

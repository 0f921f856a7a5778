package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// errNothingDone means that an append has returned no row: [unlessConverted] has left it out.
var errNothingDone = errors.New("the database has appended nothing")

// checkEncoding refuses a transaction of pgx whose server converts text. database/sql does not show
// what the server has reported: there, statements end with [unlessConverted].
func checkEncoding(tx any) error {
	switch tx := tx.(type) {
	case *pgx.Conn:
		return feed.CheckEncoding(tx)
	case interface{ Conn() *pgx.Conn }:
		return feed.CheckEncoding(tx.Conn())
	}
	return nil
}

// encodingOf replaces errNothingDone by an [*event.EncodingError].
func encodingOf(ctx context.Context, tx *sql.Tx, err error) error {
	if !errors.Is(err, errNothingDone) {
		return err
	}
	var encoding string
	if err := tx.QueryRowContext(ctx, queryEncoding).Scan(&encoding); err != nil {
		return fmt.Errorf("append: look for the encoding of the connection: %w", err)
	}
	return fmt.Errorf("append: %w", &event.EncodingError{Encoding: encoding})
}

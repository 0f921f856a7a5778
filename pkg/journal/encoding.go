package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// errNothingDone means that an append has returned no row: [unlessConverted] has left it out.
var errNothingDone = errors.New("the database has appended nothing")

// checkEncoding refuses a transaction of pgx whose server converts text. database/sql does not show
// what the server has reported: there, statements end with [unlessConverted].
func checkEncoding(tx event.Querier) error {
	switch tx := tx.(type) {
	case *pgx.Conn:
		return feed.CheckEncoding(tx)
	case interface{ Conn() *pgx.Conn }:
		return feed.CheckEncoding(tx.Conn())
	}
	return nil
}

// ask runs a statement that appends, which needs nothing but numbers and text.
func ask(ctx context.Context, tx Tx, query string, args ...any) (rows.Result, error) {
	if _, converts := tx.(*rows.SQL); converts {
		query += unlessConverted
	}
	return rows.Ask(ctx, tx, query, args...)
}

// one is [ask] for a statement that returns one row.
func one(ctx context.Context, tx Tx, into []any, query string, args ...any) error {
	found, err := ask(ctx, tx, query, args...)
	if err != nil {
		return err
	}
	err = errNothingDone
	if found.Next() {
		err = found.Scan(into...)
	}
	return encodingOf(ctx, tx, cmp.Or(found.Err(), found.Close(), err))
}

// encodingOf replaces errNothingDone by an [*event.EncodingError].
func encodingOf(ctx context.Context, tx Tx, err error) error {
	if !errors.Is(err, errNothingDone) {
		return err
	}
	var encoding string
	found, err := rows.Ask(ctx, tx, queryEncoding)
	if err == nil && found.Next() {
		err = found.Scan(&encoding)
	}
	if err == nil {
		err = cmp.Or(found.Err(), found.Close())
	}
	if err != nil {
		return fmt.Errorf("append: look for the encoding of the connection: %w", err)
	}
	return fmt.Errorf("append: %w", &event.EncodingError{Encoding: encoding})
}

package archive_test

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// errLater is what the program answers as "try again in some seconds".
var errLater = errors.New("the campaign is on its way back")

// An append to an archived campaign asks for it. Its own transaction is lost, so the request comes after.
func ExampleAsk() {
	add := func(ctx context.Context, pool *pgxpool.Pool, campaign string, e event.Event) error {
		once := func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Any, e)
			return err
		}
		err := pgx.BeginFunc(ctx, pool, once)
		if !errors.Is(err, event.ErrArchived) {
			return err
		}
		archived, err := archive.Ask(ctx, pool, campaign)
		switch {
		case err != nil:
			return err
		case archived:
			return errLater
		}
		return pgx.BeginFunc(ctx, pool, once) // it has come back meanwhile
	}
	_ = add
}

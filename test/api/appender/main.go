// Command appender is the least program that appends an event. A test looks at the modules that it links.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

type placed struct {
	Total int `json:"total"`
}

const orderPlaced event.Type[placed] = "order_placed"

func main() {
	if err := run(context.Background(), os.Getenv("DATABASE_URL")); err != nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("append", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string) error {
	types, err := catalogue.New(catalogue.EventType{Name: string(orderPlaced)})
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	orders := journal.Journal{Catalogue: types.RefuseUnknown()}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := orders.Append(ctx, tx, "order-1", journal.None, orderPlaced.New(placed{Total: 3}))
		return err
	})
}

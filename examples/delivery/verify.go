package main

import (
	"context"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// verify compares the orders in one database with the invoices in the other, and the customers'
// debts with both. It prints the counts and reports whether they are right: the expected number of
// orders, one invoice for each, and accounts that agree.
func verify(
	ctx context.Context, shop, billing *service, orders int, out io.Writer, killed int,
) (right bool, err error) {
	placed, err := list[order](ctx, shop, "SELECT id, customer, amount FROM delivery.orders")
	if err != nil {
		return false, err
	}
	invoices, err := list[struct{ OrderID, Amount int64 }](ctx, billing, "SELECT order_id, amount FROM delivery.invoices")
	if err != nil {
		return false, err
	}
	accounts, err := list[struct {
		Customer string
		Owes     int64
	}](ctx, billing, "SELECT customer, owes FROM delivery.accounts")
	if err != nil {
		return false, err
	}
	deliveries, err := list[struct{ EventID uuid.UUID }](ctx, billing, "SELECT event_id FROM delivery.deliveries")
	if err != nil {
		return false, err
	}
	byOrder, owed := map[int64]int64{}, map[string]int64{}
	for _, i := range invoices {
		byOrder[i.OrderID] = i.Amount
	}
	missing, wrong := 0, 0
	for _, o := range placed {
		if byOrder[o.ID] != o.Amount {
			missing++
		}
		owed[o.Customer] += o.Amount
	}
	for _, a := range accounts {
		owed[a.Customer] -= a.Owes
	}
	for _, rest := range owed {
		if rest != 0 {
			wrong++
		}
	}
	events := map[uuid.UUID]bool{}
	for _, d := range deliveries {
		events[d.EventID] = true
	}
	twice := len(invoices) - len(byOrder)
	_, err = fmt.Fprintf(out,
		"%d orders, %d processes killed, %d deliveries of which %d were repeats: %d invoices, %d missing, %d twice, %d "+
			"accounts wrong\n",
		len(placed), killed, len(deliveries), len(deliveries)-len(events), len(invoices), missing, twice, wrong)
	return len(placed) == orders && len(invoices) == orders && missing == 0 && twice == 0 && wrong == 0, err
}

// list returns all rows of a query, by column position.
func list[T any](ctx context.Context, of *service, sql string) ([]T, error) {
	rows, err := of.pool.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", of.name, err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", of.name, err)
	}
	return all, nil
}

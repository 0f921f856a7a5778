package feed

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// CheckQuery rejects a query with a type or tag that no event can have.
func CheckQuery(q event.Query) error {
	for i, item := range q.Items {
		for _, list := range []struct {
			field  string
			values []string
		}{{"types", item.Types}, {"tags", item.Tags}} {
			for n, value := range list.values {
				if reason := text.CheckName(value, maxQueryTextBytes); reason != "" {
					return fmt.Errorf("%w: items[%d].%s[%d] %s", event.ErrInvalidQuery, i, list.field, n, reason)
				}
			}
		}
	}
	return nil
}

// AppendQuery appends the query as the JSON document that the SQL functions read.
func AppendQuery(buf []byte, q event.Query) []byte {
	buf = append(buf, `{"items":[`...)
	for i, item := range q.Items {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = appendItem(buf, item)
	}
	return append(buf, `]}`...)
}

func appendItem(buf []byte, item event.Item) []byte {
	buf = appendStrings(append(buf, `{"types":`...), item.Types)
	buf = appendStrings(append(buf, `,"tags":`...), item.Tags)
	return append(buf, '}')
}

func appendStrings(buf []byte, values []string) []byte {
	buf = append(buf, '[')
	for i, value := range values {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = text.AppendJSON(buf, value)
	}
	return append(buf, ']')
}

// maxQueryTextBytes is the longest type or tag in a query. No event has a longer one.
const maxQueryTextBytes = 4096

// ReadMatches reads up to limit events with after < position <= until, in order, that a query
// selects. [AppendQuery] encodes it.
func ReadMatches(
	ctx context.Context, db event.Querier, query string, after, until int64, limit int,
) (_ []event.Event, err error) {
	defer rows.Explain(&err, "read the events of a query after position %d", after)
	return collect(ctx, db, queryMatches, query, after, until, limit)
}

// batcher is a Querier that sends several statements in one round trip, as pgx does.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// ReadFirst reads the writer floor with the history and then, in a later statement, the first page that a
// query selects up to a position. Both take one round trip if db can batch.
func ReadFirst(
	ctx context.Context, db event.Querier, query string, until int64,
) (floor int64, history string, events []event.Event, err error) {
	sender, ok := db.(batcher)
	if !ok {
		err = rows.Each(ctx, db, []any{&floor, &history}, func() {}, "read the writer floor", queryFloorOf)
		if err != nil {
			return 0, "", nil, err
		}
		events, err = ReadMatches(ctx, db, query, 0, until, PageEvents)
		return floor, history, events, err
	}
	var batch pgx.Batch
	batch.Queue(queryFloorOf).QueryRow(func(row pgx.Row) error { return row.Scan(&floor, &history) })
	batch.Queue(queryMatches, query, 0, until, PageEvents).Query(func(rows pgx.Rows) (err error) {
		events, _, err = collectBytes(rows, 0, math.MaxInt64)
		return err
	})
	if err := sender.SendBatch(ctx, &batch).Close(); err != nil {
		return 0, "", nil, fmt.Errorf("read the writer floor and the events of a query: %w", archivedBy(err))
	}
	events, _, err = span{}.fill(ctx, archiveOf(db), events, 0)
	return floor, history, events, err
}

package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/rapidtest"
)

func drawQuery(t *rapid.T) (q event.Query) {
	for i := range rapid.IntRange(0, 3).Draw(t, "items") {
		q.Items = append(q.Items, event.Item{
			Types: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ä b", "none"}), 0, 3).Draw(t, fmt.Sprint("types ", i)),
			Tags: rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y=1", `"q"`, "nowhere"}), 0, 3).Draw(t,
				fmt.Sprint("tags ", i)),
		})
	}
	return q
}

func drawTagged(t *rapid.T) (events []event.Event) {
	for i := range rapid.IntRange(1, 8).Draw(t, "events") {
		e := tagged(rapid.SampledFrom([]string{"c1", "c2", "c3"}).Draw(t, "campaign"),
			rapid.SampledFrom([]string{"a", "b", "ä b"}).Draw(t, fmt.Sprint("type ", i)))
		e.Tags = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y=1", `"q"`}), 0, 3, rapid.ID).Draw(t,
			fmt.Sprint("event's tags ", i))
		events = append(events, e)
	}
	return events
}

func TestQueriesSelectTheSameInGoAndInSQL(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ctx := t.Context()
	rapidtest.Check(t, 50, func(t *rapid.T) { checkSelection(ctx, t, pool) })
}

// checkSelection appends events and draws a query over them. It compares what the query selects in
// Go, what a read returns, and the first conflict of a condition.
func checkSelection(ctx context.Context, t *rapid.T, pool *pgxpool.Pool) {
	events := drawTagged(t)
	places, err := appendIf(ctx, pool, always(), events...)
	if err != nil {
		t.Fatal(err)
	}
	query, from := drawQuery(t), rapid.IntRange(0, len(events)-1).Draw(t, "from")
	var want []int64
	for i, e := range events {
		if i >= from && query.Matches(e) {
			want = append(want, places[i].Position)
		}
	}
	limit := rapid.IntRange(1, 8).Draw(t, "limit")
	read, err := journal.Read(ctx, pool, query, places[from].Position, limit)
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, e := range read {
		got = append(got, e.Position)
	}
	if !slices.Equal(got, want[:min(len(want), limit)]) {
		t.Fatalf("%+v reads %v, in Go it selects %v", query, got, want)
	}
	_, err = appendIf(ctx, pool, journal.Condition{FailIfMatch: query, After: places[from].Position - 1},
		tagged("c4", "none"))
	switch {
	case len(want) == 0 && err != nil:
		t.Fatalf("%+v is a condition that fails with %v, in Go it selects nothing", query, err)
	case len(want) == 0:
	case !errors.Is(err, journal.ErrConditionFailed) ||
		!strings.Contains(err.Error(), fmt.Sprintf(" at position %d, ", want[0])):
		t.Fatalf("%+v is a condition that answers %v, in Go it selects %v", query, err, want)
	default:
		e := events[slices.IndexFunc(places, func(p journal.Appended) bool { return p.Position == want[0] })]
		if first := slices.IndexFunc(query.Items, func(i event.Item) bool {
			return i.Matches(e)
		}); !strings.Contains(err.Error(), fmt.Sprintf(" matches item %d of ", max(first, 0))) {
			t.Fatalf("%+v answers %v, want item %d", query, err, first)
		}
	}
}

func TestAUnionOfQueriesSelectsWhatOneOfThemSelects(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, other := drawQuery(t), drawQuery(t)
		for _, e := range drawTagged(t) {
			if got, want := one.Or(other).Matches(e), one.Matches(e) || other.Matches(e); got != want {
				t.Fatalf("%+v or %+v: %v for %v %v", one, other, got, e.Type, e.Tags)
			}
		}
	})
}

package tally

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
)

// Board is the document of an amount, across campaigns. Its digest depends on the positions of all
// events with the amount, and on their order.
type Board struct {
	Count  int64 `json:"count"`
	Digest int64 `json:"digest"`
}

func (b *Board) fold(e event.Event) {
	b.Count++
	b.Digest = (b.Digest*31 + e.Position) % digestModulus
}

const digestModulus = 1_000_003

// keyOf returns the amount of an event.
func keyOf(e event.Event) (string, error) {
	a, err := event.Decode[amount](e)
	return strconv.FormatInt(a.N, 10), err
}

// pairOf returns the two keys of an event in the document "pairs".
func pairOf(e event.Event) ([]string, error) {
	a, err := event.Decode[amount](e)
	return []string{strconv.FormatInt(a.N, 10), fmt.Sprint("rest ", a.N%3)}, err
}

// linesTable has a row for each time an event is applied, in the order of applying.
const linesTable = `CREATE TABLE lines (n bigint GENERATED ALWAYS AS IDENTITY, key text NOT NULL,
	position bigint NOT NULL)`

const sumsFile = `-- projection: sums
-- version: 1
-- scope: journal
-- key: key = event.payload->>'n'
-- partitions: %d
CREATE TABLE sums (key text PRIMARY KEY, count bigint NOT NULL, digest bigint NOT NULL);
-- on: added
INSERT INTO sums AS s VALUES (event.payload->>'n', 1, event.position %% 1000003)
ON CONFLICT (key) DO UPDATE SET count = s.count + 1, digest = (s.digest * 31 + event.position) %% 1000003;
`

// Across returns projections across campaigns by amount: the document "boards", the handlers "lines", the SQL
// file "sums", and the document "pairs", whose events have two keys each. before may be nil; handlers and
// documents call it, documents without a group.
func Across(partitions int, before Hook) []projection.Projection {
	if before == nil {
		before = func(context.Context, *projection.Group, event.Event) error { return nil }
	}
	boards := projection.Document[Board]{
		Name: "boards", Version: 1, Types: []string{added}, Scope: projection.ScopeJournal, Key: keyOf,
		Partitions: partitions,
		Fold: func(b *Board, e event.Event) error {
			b.fold(e)
			return before(context.Background(), nil, e)
		},
	}
	pairs := boards
	pairs.Name, pairs.Key, pairs.Keys = "pairs", nil, pairOf
	lines := &projection.Handlers{
		Name: "lines", Version: 1, Scope: projection.ScopeJournal, Key: keyOf, KeyColumn: "key", Partitions: partitions,
		Tables: linesTable,
		On: []projection.Handler{
			projection.Handle(added, func(ctx context.Context, g *projection.Group, e event.Event, a amount) error {
				if err := before(ctx, g, e); err != nil {
					return err
				}
				g.Queue(`INSERT INTO lines (key, position) VALUES ($1, $2)`, strconv.FormatInt(a.N, 10), e.Position)
				return nil
			}),
		},
	}
	sums, err := sqlfile.Load(fstest.MapFS{"sums.sql": {Data: fmt.Appendf(nil, sumsFile, partitions)}}, "sums.sql")
	if err != nil {
		panic(err) // the file above does not load
	}
	return []projection.Projection{boards, lines, sums, pairs}
}

// SettleAcross waits until all projections across campaigns are at the end of the journal.
func SettleAcross(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	Eventually(t, "all is applied across campaigns", AtTheEnd(pool))
}

// AtTheEnd returns the condition of [SettleAcross]. Keys that are dead do not count.
func AtTheEnd(pool *pgxpool.Pool) func(context.Context) (bool, error) {
	return Holds(pool, `SELECT bool_and(r.position >= (SELECT coalesce(max(position), 0) FROM tidemark.journal))
		AND NOT EXISTS (SELECT FROM tidemark.failed WHERE status <> 'dead')
		FROM tidemark.readers r WHERE r.kind = 'projection'`)
}

// VerifyAcross compares the projections across campaigns with a fold of the journal in the order of
// position, and their places with the journal. Keys of held stand still from a position on, in the
// projections named with them: "lines 7".
func VerifyAcross(t testing.TB, pool *pgxpool.Pool, held map[string]int64) {
	t.Helper()
	for name, sql := range map[string]string{
		"boards": `SELECT key, (doc ->> 'count')::bigint, (doc ->> 'digest')::bigint FROM tidemark_views.boards`,
		"pairs":  `SELECT key, (doc ->> 'count')::bigint, (doc ->> 'digest')::bigint FROM tidemark_views.pairs`,
		"lines":  `SELECT key, position, 0::bigint FROM tidemark_views.lines ORDER BY n`,
		"sums":   `SELECT key, count, digest FROM tidemark_views.sums`,
	} {
		want, got := map[string]Board{}, map[string]Board{}
		for e, err := range journal.ReadAll(t.Context(), pool, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Type != added {
				continue
			}
			keys, err := pairOf(e)
			if err != nil {
				t.Fatal(err)
			}
			if name != "pairs" {
				keys = keys[:1]
			}
			for _, key := range keys {
				if at := held[name+" "+key]; at == 0 || e.Position < at {
					b := want[key]
					b.fold(e)
					want[key] = b
				}
			}
		}
		rows, err := pool.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		var key string
		var count, digest int64
		if _, err := pgx.ForEachRow(rows, []any{&key, &count, &digest}, func() error {
			b := Board{Count: count, Digest: digest}
			if name == "lines" { // count is a position
				b = got[key]
				b.fold(event.Event{Position: count})
			}
			got[key] = b
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		wrong := 0
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if wrong++; got[key] == want[key] {
				wrong--
			} else if wrong < 5 {
				t.Errorf("%s of %s: %+v, the fold of the journal is %+v", name, key, got[key], want[key])
			}
		}
		if wrong > 0 || len(got) > len(want) {
			t.Errorf("%s: %d of %d keys differ from the journal, %d keys are there", name, wrong, len(want), len(got))
		}
	}
	if wrong := Value[string](t, pool, `SELECT coalesce(string_agg(concat_ws(' ', r.topic, r.publisher, r.position,
			r.applied), ', '), '') FROM tidemark.readers r CROSS JOIN (SELECT count(*) AS n, coalesce(max(position), 0) AS last,
			coalesce(bit_xor(uuid_hash_extended(event_id, 0)), 0) AS hash FROM tidemark.journal) j
		WHERE r.kind = 'projection' AND (r.position < j.last OR r.applied <> j.n OR r.applied_hash <> j.hash)`); wrong != "" {
		t.Errorf("places that are not the journal's: %s", wrong)
	}
}

package projector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// foldKinds computes independently what the projections of kinds write for moves. It returns the
// rows of each table as text, in the order of their keys.
func foldKinds(campaign, name string, moves []int) map[string][]string {
	type document struct{ count, sum int }
	documents, sum, rows := map[string]*document{}, 0, map[string][]string{}
	for i, by := range moves {
		key := fmt.Sprint(by % 3)
		if by == 7 {
			delete(documents, key)
		} else {
			if documents[key] == nil {
				documents[key] = &document{}
			}
			d := documents[key]
			d.count, d.sum = d.count+1, 3*d.sum+by
		}
		sum = (3*sum + by) % 1000003
		if i == 0 {
			sum = by // the first amount starts the sum
		}
		rows["a_child_"+name] = append(rows["a_child_"+name],
			fmt.Sprintf(`{"campaign_id": %q, "number": %d, "seq": %d}`, campaign, i+1, i+1))
		rows["z_parent_"+name] = []string{fmt.Sprintf(`{"campaign_id": %q, "count": %d}`, campaign, i+1)}
		rows["file_"+name] = []string{fmt.Sprintf(`{"campaign_id": %q, "sum": %d}`, campaign, sum)}
	}
	for _, key := range []string{"0", "1", "2"} {
		if d := documents[key]; d != nil {
			rows["document_"+name] = append(rows["document_"+name],
				fmt.Sprintf(`{"campaign_id": %q, "key": %q, "doc": {"count": %d, "sum": %d}}`, campaign, key, d.count, d.sum))
		}
	}
	return rows
}

// sameJSON reports whether the JSON values are equal.
func sameJSON(t *testing.T, got []json.RawMessage, want []string) bool {
	t.Helper()
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		var a, b any
		if err := errors.Join(json.Unmarshal(got[i], &a), json.Unmarshal([]byte(want[i]), &b)); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(a) != fmt.Sprint(b) {
			return false
		}
	}
	return true
}

// TestAsOfEqualsAFoldOfTheFirstEvents checks every event of 60 random campaigns, in random order.
func TestAsOfEqualsAFoldOfTheFirstEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	projections := kinds(t, "x")
	p, err := projector.New(projector.Config{Pool: pool, Projections: projections, GroupEvents: 3})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var looks errgroup.Group
	looks.SetLimit(6)
	for i := range 60 {
		campaign := fmt.Sprintf("c%d", i)
		moves := make([]int, random.IntN(6))
		for i := range moves {
			moves[i] = random.IntN(8)
		}
		if len(moves) == 0 {
			moves = []int{7}
		}
		appendMoves(t, pool, campaign, moves...)
		projection := projections[i%3].Spec().Name
		for n := range len(moves) + 1 {
			looks.Go(func() error {
				state, err := p.AsOf(t.Context(), projection, campaign, int64(n))
				if err != nil {
					return err
				}
				want := foldKinds(campaign, "x", moves[:n])
				for _, table := range state.Tables {
					if !sameJSON(t, table.Rows, want[table.Table]) {
						t.Errorf("%s after event %d of %v: %s, want %s", table.Table, n, moves, table.Rows, want[table.Table])
					}
				}
				if len(state.Tables) == 0 || state.Seq != int64(n) {
					t.Errorf("the state is %+v", state)
				}
				return nil
			})
		}
	}
	if err := looks.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.projections`); n != 0 {
		t.Errorf("looking has registered %d projections", n)
	}
	for _, seq := range []int64{-1, 99} {
		if _, err := p.AsOf(t.Context(), "file_x", "c0", seq); !errors.Is(err, event.ErrNotFound) {
			t.Errorf("as of event %d: %v", seq, err)
		}
	}
	if _, err := p.AsOf(t.Context(), "file_x", "nobody", 0); !errors.Is(err, event.ErrNotFound) {
		t.Errorf("of no campaign: %v", err)
	}
}

func TestDiffTellsWhatChanged(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p := newProjector(t, pool, kinds(t, "x")...)
	appendMoves(t, pool, "a", 1, 2, 7, 1, 4) // 7 deletes document 1
	diff := func(projection string, from, to int64) string {
		t.Helper()
		changes, err := p.Diff(t.Context(), projection, "a", from, to)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, c := range changes {
			if (c.Before == nil) != (c.Kind == lookback.ChangeAdded) ||
				(c.After == nil) != (c.Kind == lookback.ChangeRemoved) {
				t.Errorf("%s with before %s and after %s", c.Kind, c.Before, c.After)
			}
			all = append(all, fmt.Sprint(c.Kind, " ", c.Table, " ", string(c.Key), " ", strings.Join(c.Columns, ",")))
		}
		return strings.Join(all, "; ")
	}
	for _, tt := range []struct {
		projection string
		from, to   int64
		want       string
	}{
		{"document_x", 0, 2, `added document_x ["a", "1"] ; added document_x ["a", "2"] `},
		{"document_x", 2, 3, `removed document_x ["a", "1"] `},
		{"document_x", 1, 4, `added document_x ["a", "2"] `}, // deleted and created again with the same content
		{"document_x", 4, 5, `changed document_x ["a", "1"] doc`},
		{"document_x", 3, 3, ``},
		{"handlers_x", 3, 5, `changed z_parent_x ["a"] count; added a_child_x ["a", 4] ; added a_child_x ["a", 5] `},
	} {
		if got := diff(tt.projection, tt.from, tt.to); got != tt.want {
			t.Errorf("%s from %d to %d: %q, want %q", tt.projection, tt.from, tt.to, got, tt.want)
		}
	}
	if _, err := p.Diff(t.Context(), "document_x", "a", 3, 2); err == nil {
		t.Error("backwards is taken")
	}
}

// stamped has a timestamp in its key. Its JSON text differs from its Postgres text.
func stamped() projection.Projection {
	return projection.Handlers{
		Name: "stamped", Version: 1, Types: []string{"moved"}, Tables: `CREATE TABLE stamped (campaign_id text NOT NULL,
			at timestamptz NOT NULL, by bigint NOT NULL, PRIMARY KEY (campaign_id, at))`,
		On: []projection.Handler{
			projection.Handle("moved", func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
				g.Queue(`INSERT INTO stamped VALUES ($1, 'epoch'::timestamptz + make_interval(secs => $2),
			$3)`, e.CampaignID, float64(e.Seq), m.By)
				return nil
			}),
		},
	}
}

func TestWhyTakesAKeyAsTheRowHasIt(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{stamped()}})
	if err != nil {
		t.Fatal(err)
	}
	appendMoves(t, pool, "a", 1, 2, 3)
	state, err := p.AsOf(t.Context(), "stamped", "a", 3)
	if err != nil || len(state.Tables) != 1 || len(state.Tables[0].Rows) != 3 {
		t.Fatalf("%+v, %v", state, err)
	}
	var row struct{ At string }
	if err := json.Unmarshal(state.Tables[0].Rows[1], &row); err != nil || !strings.Contains(row.At, "T") {
		t.Fatalf("%+v, %v", row, err)
	}
	why, err := p.Why(t.Context(), lookback.WhyRequest{Projection: "stamped", CampaignID: "a", Key: []string{row.At}})
	if err != nil || len(why.Causes) != 3 || why.Causes[2].Event.Seq != 2 {
		t.Errorf("the row of %s: %+v, %v", row.At, why, err)
	}
}

// withColumns is a document with a generated column, so its columns have different causes.
func withColumns() projection.Projection {
	return projection.Document[counter]{
		Name: "wide", Version: 1, Types: []string{"moved"},
		Columns: `big boolean GENERATED ALWAYS AS ((doc->>'sum')::int > 10) STORED`,
		Fold: func(c *counter, e event.Event) error {
			m, err := event.Decode[moved](e)
			if m.By == 7 {
				return event.Delete
			}
			c.Count++
			c.Sum += m.By
			return err
		},
	}
}

func TestWhyNamesTheEventsThatWroteARow(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p, err := projector.New(projector.Config{
		Pool: pool, Projections: append(kinds(t, "x"), withColumns()),
		GroupEvents: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	moves := []int{1, 7, 6, 2, 9, -8, 8, 3, 3, 0}
	appendMoves(t, pool, "a", moves...)
	causes := func(r lookback.WhyRequest) string {
		t.Helper()
		r.CampaignID = "a"
		why, err := p.Why(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, c := range why.Causes {
			if c.Event.Type != "moved" {
				t.Errorf("the event is %+v", c.Event)
			}
			all = append(all, fmt.Sprint(c.Column, " ", c.Event.Seq))
		}
		if why.Gone != nil {
			all = append(all, fmt.Sprint("gone ", why.Gone.Seq))
		}
		return strings.Join(all, ", ")
	}
	for _, tt := range []struct {
		request lookback.WhyRequest
		want    string
	}{
		// From event 3 on the sum is 6, 8, 17, 9, 17, 20, 23, 23: big is true after event 5, false
		// again, and true from event 7 on.
		{lookback.WhyRequest{Projection: "wide", Key: []string{"-"}}, "campaign_id 3, key 3, doc 10, big 7"},
		{lookback.WhyRequest{Projection: "wide", Key: []string{"-"}, Seq: 6}, "campaign_id 3, key 3, doc 6, big 6"},
		{lookback.WhyRequest{Projection: "wide", Key: []string{"-"}, Seq: 4}, "campaign_id 3, key 3, doc 4, big 3"},
		{lookback.WhyRequest{Projection: "wide", Key: []string{"-"}, Seq: 2}, "gone 2"},
		{lookback.WhyRequest{Projection: "wide", Key: []string{"no such"}}, ""},
		{
			lookback.WhyRequest{Projection: "handlers_x", Table: "a_child_x", Key: []string{"3"}},
			"campaign_id 3, number 3, seq 3",
		},
		{lookback.WhyRequest{Projection: "handlers_x", Table: "z_parent_x"}, "campaign_id 1, count 10"},
		{lookback.WhyRequest{Projection: "file_x"}, "campaign_id 1, sum 10"},
	} {
		if got := causes(tt.request); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.request, got, tt.want)
		}
	}
	for _, r := range []lookback.WhyRequest{
		{Projection: "handlers_x"},
		{Projection: "wide"},
		{Projection: "file_x", Table: "none"},
	} {
		r.CampaignID = "a"
		if _, err := p.Why(t.Context(), r); !errors.Is(err, replay.ErrNotVerifiable) &&
			!strings.Contains(fmt.Sprint(err), "primary key") {
			t.Errorf("%+v: %v", r, err)
		}
	}
	_, err = p.Why(t.Context(), lookback.WhyRequest{
		Projection: "handlers_x", Table: "z_parent_x", CampaignID: "a",
		Key: []string{"a"},
	})
	if want := `the key has 1 values ["a"], but table z_parent_x has one row a campaign: leave the key out`; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("a key where none is needed: %v", err)
	}
	// Each event named as a cause must have changed the value.
	for n := int64(1); n <= int64(len(moves)); n++ {
		state, err := p.AsOf(t.Context(), "document_x", "a", n)
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range state.Tables[0].Rows {
			var row struct{ Key string }
			if err := json.Unmarshal(raw, &row); err != nil {
				t.Fatal(err)
			}
			why, err := p.Why(t.Context(), lookback.WhyRequest{
				Projection: "document_x", CampaignID: "a",
				Key: []string{row.Key}, Seq: n,
			})
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(why.Causes, func(c lookback.Cause) bool { return c.Column == "doc" })
			seq := why.Causes[i].Event.Seq
			before, err := p.AsOf(t.Context(), "document_x", "a", seq-1)
			if err != nil {
				t.Fatal(err)
			}
			if string(why.Row) != string(raw) || slices.ContainsFunc(before.Tables[0].Rows, func(r json.RawMessage) bool {
				return string(r) == string(raw)
			}) {
				t.Errorf("event %d is named for %s, which was there before", seq, raw)
			}
		}
	}
}

func TestARefusedSchemaNamesWhatLacks(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.UTF8(pgtest.With(pgtest.URL(t), "default_transaction_read_only", "on")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	h := &projection.Handlers{
		Name: "p", Version: 1, Types: []string{"noted"}, Tables: "CREATE TABLE p (campaign_id text)",
		On: []projection.Handler{
			projection.Handle("noted", func(context.Context, *projection.Group, event.Event, struct{}) error { return nil }),
		},
	}
	_, err = newProjector(t, pool, h).AsOf(t.Context(), "p", "a", 0)
	if err == nil || !strings.Contains(err.Error(), "connect to the primary") || strings.Contains(err.Error(), "privilege") {
		t.Errorf("as-of in a read-only session: %v", err)
	}
}

package projector_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/bulk"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// expectVerified verifies a set of tables, and compares what differs.
func expectVerified(t *testing.T, p *projector.Projector, r lookback.VerifyRequest, want ...string) lookback.VerifyReport {
	t.Helper()
	got := []string{}
	r.OnDifference = func(d lookback.Difference) {
		got = append(got, strings.TrimSpace(fmt.Sprint(d.Kind, " ", d.CampaignID, " ", string(d.Key), " ", strings.Join(d.Columns, " "))))
	}
	report, err := p.Verify(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("differences of %s: %q\nwant %q", r.Projection, got, want)
	}
	return report
}

func TestRowsAcrossCampaignsAreVerifiedUpToWhereTheyStand(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	c := &boardCell{T: t, pool: pool, names: []string{"board"}}
	s := &scores{}
	all := func(name string) lookback.VerifyRequest { return lookback.VerifyRequest{Projection: name, All: true} }
	board := func() *projector.Projector {
		return workerOf(t, pool, func(cfg *projector.Config) { cfg.GroupEvents = 7 }, c.version("board", 1), c.version("board", 2),
			s.projections()[1])
	}
	c.play()
	drain(t, workerOf(t, pool, nil, c.version("board", 1), s.projections()[1]))
	c.play() // not applied yet
	if r := expectVerified(t, board(), all("board")); r.Events != 12 || r.Tables[0].Rows != 5 {
		t.Errorf("%+v", r)
	}
	expectVerified(t, board(), all("list"))
	c.refuses.Store(-1)
	s.refuses.Store(-1)
	score(t, pool, "game0", scored{"p1", -1}, scored{"p1", 4}, scored{"p2", 4})
	drain(t, workerOf(t, pool, nil, c.version("board", 1), s.projections()[1]))
	expectVerified(t, board(), all("board")) // without the keys that are held back, from the failure on
	expectVerified(t, board(), all("list"))
	p := board()
	if err := p.Register(t.Context()); err != nil { // version 2 is built
		t.Fatal(err)
	}
	expectVerified(t, board(), all("board~next"))
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := bulk.Resolve(t.Context(), tx, failed.Filter{Group: "default"}, ada)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		drain(t, board())
	}
	expectPairs(t, pool, "")
	for _, name := range []string{"board", "board~previous", "list"} {
		if r := expectVerified(t, board(), all(name)); r.Resolved != 1 || r.Events != 26 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	exec(t, pool, `UPDATE tidemark_views.board SET doc = doc || '{"games": 99}' WHERE key = 'ann'`)
	exec(t, pool, `DELETE FROM tidemark_views.board WHERE key = 'p2'`)
	exec(t, pool, `INSERT INTO tidemark_views.board VALUES ('stranger', '{}')`)
	exec(t, pool, `UPDATE tidemark_views.list SET games = 99 WHERE player = 'ann'`)
	differs, misses := `different ann ["ann"] doc`, `missing p2 ["p2"]`
	expectVerified(t, board(), all("board"), differs, `extra stranger ["stranger"]`, misses)
	expectVerified(t, board(), all("list"), `different - ["ann"] games`)
	if r := expectVerified(t, board(), lookback.VerifyRequest{Projection: "board", Sample: 5}, differs, misses); r.Campaigns != 5 {
		t.Errorf("%+v", r)
	}
	for range 5 {
		if r, err := board().Verify(t.Context(), lookback.VerifyRequest{Projection: "board", Sample: 2}); err != nil ||
			r.Campaigns != 2 || r.Differing > 2 || r.Tables[0].Rows != 2 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	expectVerified(t, board(), lookback.VerifyRequest{Projection: "board", Campaigns: []string{"p1", "p2"}}, misses)
	_, err := board().Verify(t.Context(), lookback.VerifyRequest{Projection: "list", Sample: 5})
	if err == nil || !strings.Contains(err.Error(), "it names no column that has the key of a row") {
		t.Error(err)
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := failed.Replay(t.Context(), tx, failed.ReplayRequest{Group: "default", Projection: "board", Campaigns: []string{"ann", "p2"}}, ada)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if r := expectVerified(t, board(), all("board"), `extra stranger ["stranger"]`); r.Skipped != 2 {
		t.Errorf("%+v", r)
	}
	drain(t, board())
	expectVerified(t, board(), all("board"), `extra stranger ["stranger"]`)
}

func TestVerificationStopsASwapAcrossCampaigns(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := &boards{}
	score(t, pool, "game", scored{"ann", 1}, scored{"bob", 2})
	drain(t, workerOf(t, pool, nil, b.version("board", 1)))
	two := workerOf(t, pool, nil, b.version("board", 1), b.version("board", 2))
	if err := two.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `UPDATE tidemark.rebuilds SET refused_at = now() + interval '1 hour'`)
	drain(t, two)
	exec(t, pool, `UPDATE tidemark_next_board.board SET doc = '{}' WHERE key = 'bob'`)
	exec(t, pool, `UPDATE tidemark.rebuilds SET refused_at = NULL`)
	drain(t, two)
	expectText(t, pool, "refusal", "1 differences between the new tables and what the journal says, in 1 of 2 campaigns or keys",
		`SELECT split_part(refusal, ' that were', 1) FROM tidemark.rebuilds`)
}

// expectTravel compares the rows after each event with the fold up to there.
func expectTravel(t *testing.T, pool *pgxpool.Pool, p *projector.Projector, name, player string) {
	t.Helper()
	want := map[string]standing{}
	for e, err := range journal.ReadAll(t.Context(), pool, 0) {
		if err != nil {
			t.Fatal(err)
		}
		s, err := event.Decode[scored](e)
		if err != nil {
			t.Fatal(err)
		}
		if player == "" || s.Player == player {
			doc := want[s.Player]
			doc.add(e, s.Points)
			want[s.Player] = doc
		}
		state, err := p.AsOf(t.Context(), name, player, e.Position)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]standing{}
		for _, row := range state.Tables[0].Rows {
			var one struct {
				Key, Player, Orders string
				Doc                 standing
				Games, Total        int
			}
			if err := json.Unmarshal(row, &one); err != nil {
				t.Fatal(err)
			}
			if one.Player != "" {
				one.Key, one.Doc = one.Player, standing{one.Games, one.Total, one.Orders}
			}
			got[one.Key] = one.Doc
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s after %d: %v, want %v", name, e.Position, got, want)
		}
	}
}

func TestRowsAcrossCampaignsAreShownAsOfAPositionWithTheirCauses(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	s := &scores{partitions: 2}
	p := workerOf(t, pool, func(cfg *projector.Config) { cfg.GroupEvents = 3 }, s.projections()...)
	drain(t, p)
	score(t, pool, "game1", scored{"ann", 1}, scored{"bob", 2}, scored{"ann", 3})
	score(t, pool, "game2", scored{"cleo", 4}, scored{"ann", 5})
	last := query[int64](t, pool, `SELECT max(position) FROM tidemark.journal`)
	for _, name := range []string{"board", "list"} {
		expectTravel(t, pool, p, name, "")
		expectTravel(t, pool, p, name, "ann")
		changes, err := p.Diff(t.Context(), name, "", last-2, last)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, c := range changes {
			got += fmt.Sprint(c.Kind, " ", string(c.Key), " ")
		}
		if got != `changed ["ann"] added ["cleo"] ` {
			t.Errorf("changes of %s: %s", name, got)
		}
		for _, request := range []lookback.WhyRequest{
			{Projection: name, CampaignID: "", Key: []string{"ann"}},
			{Projection: name, CampaignID: "ann", Key: []string{"ann"}},
			{Projection: name, Key: []string{"ann"}, Seq: last - 1},
		} {
			if name == "board" && request.CampaignID != "" {
				request.Key = nil // the key of the row
			}
			want, seq := "game2", int64(2)
			if request.Seq > 0 {
				want, seq = "game1", 3
			}
			why, err := p.Why(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if cause := why.Causes[len(why.Causes)-1].Event; cause.CampaignID != want || cause.Seq != seq {
				t.Errorf("%s: %+v is because of %s/%d", name, request, cause.CampaignID, cause.Seq)
			}
		}
	}
	if _, err := p.AsOf(t.Context(), "board", "", last+1); err == nil || !strings.Contains(err.Error(), "positions go up to") {
		t.Error(err)
	}
}

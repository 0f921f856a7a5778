package ledger

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// prepare runs a script on a new database and returns the id of the database instance.
func prepare(t *testing.T, script string) (pool *pgxpool.Pool, instance string) {
	t.Helper()
	pool = pgtest.New(t)
	if _, err := pool.Exec(t.Context(), script, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	if err := pool.QueryRow(t.Context(), queryInstance).Scan(&instance); err != nil {
		t.Fatal(err)
	}
	return pool, instance
}

// affected returns how many rows a statement wrote, locked or returned.
func affected(t *testing.T, pool *pgxpool.Pool, query string, args ...any) int64 {
	t.Helper()
	tag, err := pool.Exec(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	return tag.RowsAffected()
}

// Each write to a pair checks its owner and its generation. A write that depends on what was read
// from the journal also checks the instance. A mismatch in any one of them shuts out the earlier
// holder.
func TestAPairIsWrittenByItsHolderAlone(t *testing.T) {
	t.Parallel()
	pool, here := prepare(t, `INSERT INTO tidemark.readers (topic, publisher, position, owner, generation,
		expires_at) VALUES ('all', 'out', 10, 'me', 5, now() + interval '1 hour')`)
	for name, holder := range map[string]struct {
		owner      string
		generation int64
		instance   string
		want       int64 // rows written
	}{
		"another owner": {"you", 5, here, 0}, "an older generation": {"me", 4, here, 0},
		"a newer generation": {"me", 6, here, 0}, "the holder": {"me", 5, here, 1},
	} {
		for statement, write := range map[string]func() int64{
			"fence": func() int64 {
				return affected(t, pool, queryFence, "all", "out", holder.owner, holder.generation, holder.instance)
			},
			"move": func() int64 {
				return affected(t, pool, queryMove, holder.owner, []string{"all"}, []string{"out"}, []int64{holder.generation},
					[]int64{20}, []int64{1}, []bool{false}, time.Minute, holder.instance)
			},
			"fail": func() int64 {
				return affected(t, pool, queryFail, "all", "out", holder.owner, holder.generation, 3, "down", time.Second)
			},
		} {
			if got := write(); got != holder.want {
				t.Errorf("%s, by %s: %d rows, want %d", statement, name, got, holder.want)
			}
		}
		if holder.want == 0 && affected(t, pool, queryHalt, "all", "out", holder.owner, holder.generation, "FAILED",
			"down") > 0 {
			t.Errorf("halt, by %s: it is written", name)
		}
	}
	for statement, got := range map[string]int64{
		"fence": affected(t, pool, queryFence, "all", "out", "me", int64(5), "elsewhere"),
		"move": affected(t, pool, queryMove, "me", []string{"all"}, []string{"out"}, []int64{5}, []int64{30}, []int64{1},
			[]bool{false}, time.Minute, "elsewhere"),
	} {
		if got > 0 {
			t.Errorf("%s, of another journal: it is written", statement)
		}
	}
	back := affected(t, pool, queryMove, "me", []string{"all"}, []string{"out"}, []int64{5}, []int64{15}, []int64{1},
		[]bool{false}, time.Minute, here)
	var position int64
	if err := pool.QueryRow(t.Context(), "SELECT position FROM tidemark.readers").Scan(&position); err != nil ||
		back != 1 || position != 20 {
		t.Errorf("moved from 20 to 15 it is at %d, %v", position, err)
	}
	if affected(t, pool, queryHalt, "all", "out", "me", int64(5), "FAILED", "down") != 1 {
		t.Error("the holder cannot halt it")
	}
}

// Each write of the relay to a parked row checks the row as it was read, so an operator's act in
// between wins.
func TestAnActOnWhatIsParkedWinsOverTheRelay(t *testing.T) {
	t.Parallel()
	pool, _ := prepare(t, `INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status,
		attempt_count) VALUES ('all', 'out', 'c', 2, true, 7, 'retrying', 1)`)
	seen := Parked{
		Key: publications.Key{Topic: "all", Publisher: "out"}, Campaign: "c", Seq: 2, Holds: true, Position: 7, Status: "retrying",
		Attempts: 1,
	}
	other := func(change func(*Parked)) Parked {
		row := seen
		change(&row)
		return row
	}
	for name, row := range map[string]Parked{
		"another status":        other(func(r *Parked) { r.Status = "parked" }),
		"other attempts":        other(func(r *Parked) { r.Attempts = 0 }),
		"another event":         other(func(r *Parked) { r.Seq = 3 }),
		"one that holds nobody": other(func(r *Parked) { r.Holds = false }),
		"another campaign":      other(func(r *Parked) { r.Campaign = "d" }),
		"that of another topic": other(func(r *Parked) { r.Topic = "some" }),
		"another publisher's":   other(func(r *Parked) { r.Publisher = "in" }),
	} {
		for statement, got := range map[string]int64{
			"drained":  affected(t, pool, queryDrained, row.where(int64(5), int64(9))...),
			"unpark":   affected(t, pool, queryUnpark, row.where()...),
			"postpone": affected(t, pool, queryPostpone, row.where("parked", 2, time.Second, "no", nil, "noted", int64(7), "")...),
		} {
			if got != 0 {
				t.Errorf("%s, of %s: %d rows", statement, name, got)
			}
		}
	}
	if n := affected(t, pool, queryPostpone, seen.where("retrying", 2, time.Second, "no", nil, "noted",
		int64(7), "")...); n != 1 {
		t.Errorf("postpone: %d rows", n)
	}
	seen.Attempts = 2
	if n := affected(t, pool, queryDrained, seen.where(int64(5), int64(9))...); n != 1 {
		t.Errorf("drained: %d rows", n)
	}
	seen.Seq, seen.Status, seen.Attempts = 5, "draining", 0
	if n := affected(t, pool, queryUnpark, seen.where()...); n != 1 {
		t.Errorf("unpark: %d rows", n)
	}
}

package tally

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// patience limits every wait of these tests. It measures nothing: measured times have limits of
// their own.
const patience = 3 * time.Minute

// Eventually waits until the condition holds. The condition may return errors for a while, for
// example while the server is down.
func Eventually(t testing.TB, what string, holds func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// Poll less often as time goes on: on a busy machine polls slow down the work itself.
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 40*time.Millisecond) {
		ok, err := holds(ctx)
		if ok && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s (last error: %v)", patience, what, err)
		case <-time.After(pause):
		}
	}
}

// Value returns the single value of a statement.
func Value[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// Exec runs a statement.
func Exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Holds returns a condition for [Eventually]: the statement returns true.
func Holds(pool *pgxpool.Pool, sql string, args ...any) func(context.Context) (bool, error) {
	return func(ctx context.Context) (ok bool, err error) {
		err = pool.QueryRow(ctx, sql, args...).Scan(&ok)
		return ok, err
	}
}

// Settle waits until the consumer group has no work items and no rows of failed.
func Settle(t testing.TB, pool *pgxpool.Pool, group string) {
	t.Helper()
	Eventually(t, "all is applied", Holds(pool, `SELECT NOT EXISTS (SELECT FROM tidemark.outbox WHERE consumer_group = $1)
		AND NOT EXISTS (SELECT FROM tidemark.failed WHERE consumer_group = $1)`, group))
}

// WatchFailures makes the database record every failure of a projection. count returns their
// number.
func WatchFailures(t testing.TB, pool *pgxpool.Pool) (count func() int) {
	t.Helper()
	Exec(t, pool, `
		CREATE TABLE public.failures (projection text, message text);
		CREATE FUNCTION remember_failure() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO public.failures VALUES (NEW.projection, NEW.error_message);
			RETURN NULL;
		END $$;
		CREATE TRIGGER remember_failure AFTER INSERT OR UPDATE ON tidemark.failed
			FOR EACH ROW WHEN (NEW.status IN ('failed', 'dead')) EXECUTE FUNCTION remember_failure()`)
	return func() int {
		t.Helper()
		return Value[int](t, pool, `SELECT count(*) FROM public.failures`)
	}
}

// Verify compares both projections of the prefix with a fold of the whole journal, and checks that
// no work is left. It returns the fold.
func Verify(t testing.TB, pool *pgxpool.Pool, prefix string) map[string]Tally {
	t.Helper()
	folded, entries := map[string]Tally{}, map[string][]int64{}
	for e, err := range journal.ReadAll(t.Context(), pool, 0) {
		if err != nil {
			t.Fatal(err)
		}
		tally := folded[e.CampaignID]
		if e.Seq != tally.Last+1 {
			t.Errorf("the journal goes from %d to %d in campaign %s", tally.Last, e.Seq, e.CampaignID)
		}
		if err := tally.fold(e); err != nil {
			t.Fatal(err)
		}
		folded[e.CampaignID] = tally
	}
	differences := compareTallies(t, pool, prefix, folded)
	rows, err := pool.Query(t.Context(), `SELECT campaign_id, seq
		FROM `+pgx.Identifier{prefix + "entries"}.Sanitize()+` ORDER BY campaign_id,
		n`)
	if err != nil {
		t.Fatal(err)
	}
	var campaign string
	var seq int64
	if _, err := pgx.ForEachRow(rows, []any{&campaign, &seq}, func() error {
		entries[campaign] = append(entries[campaign], seq)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for campaign, want := range folded {
		if got := entries[campaign]; !counts(got, want.Count) {
			differences = append(differences, fmt.Sprintf("campaign %s of %d events was applied as %v", campaign, want.Count,
				head(got)))
		}
		delete(entries, campaign)
	}
	for campaign := range entries {
		differences = append(differences, fmt.Sprintf("campaign %s has entries and no events", campaign))
	}
	if len(differences) > 0 {
		t.Errorf("%d differences between read model and journal, for instance:", len(differences))
	}
	for _, d := range differences[:min(5, len(differences))] {
		t.Error(d)
	}
	if n := Value[int](t, pool, `SELECT count(*) FROM tidemark.leases l
		JOIN tidemark.projections p ON p.consumer_group = l.consumer_group AND p.name = $1
		WHERE l.checkpoint <> (SELECT max(j.seq) FROM tidemark.journal j
			WHERE j.campaign_id = l.campaign_id)`, prefix+"tallies"); n > 0 {
		t.Errorf("%d checkpoints are not at their campaign's last event", n)
	}
	return folded
}

func compareTallies(t testing.TB, pool *pgxpool.Pool, prefix string, folded map[string]Tally) (differences []string) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT campaign_id, doc FROM `+pgx.Identifier{prefix + "tallies"}.Sanitize())
	if err != nil {
		t.Fatal(err)
	}
	var campaign string
	var stored Tally
	found := 0
	if _, err := pgx.ForEachRow(rows, []any{&campaign, &stored}, func() error {
		found++
		if want := folded[campaign]; stored != want {
			differences = append(differences, fmt.Sprintf("the document of campaign %s is %+v, the fold of its events %+v",
				campaign, stored, want))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if found < len(folded) {
		differences = append(differences, fmt.Sprintf("%d campaigns have a document, %d have events", found, len(folded)))
	}
	return differences
}

// counts reports whether seqs are 1, 2, 3, …, last.
func counts(seqs []int64, last int64) bool {
	for i, seq := range seqs {
		if seq != int64(i)+1 {
			return false
		}
	}
	return int64(len(seqs)) == last
}

func head(seqs []int64) string {
	if len(seqs) > 50 {
		return fmt.Sprintf("%v and %d more", seqs[:50], len(seqs)-50)
	}
	return fmt.Sprint(seqs)
}

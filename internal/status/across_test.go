package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// board registers a projection across campaigns whose first partition has applied two of five events,
// and whose second has applied all. Two keys of it are behind.
func board(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.consumer_groups (name) VALUES ('default');
		INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state, scope)
			VALUES ('board', 'default', 1, 's', '{board}', 'active', 'journal'), ('other', 'default', 1, 's', '{other}', 'active',
			'campaign');
		SELECT tidemark.append(c::text, '[{"type": "noted"}]') FROM generate_series(1, 5) c;
		INSERT INTO tidemark.readers (topic, publisher, position, kind, owner, expires_at) VALUES
			('board', '#0', 2, 'projection', 'w', now() + interval '1 hour'), ('board', '#1', 5, 'projection', '', '-infinity');
		INSERT INTO tidemark.relays (owner, host, pid, knows, seen_at, expires_at, pairs_held)
			VALUES ('w', 'box', 7, '{board,#0}', now(), now() + interval '1 hour', 1);
		INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, next_attempt_at) VALUES
			('bob', 'board', 'default', 1, 'dead', 'infinity'), ('1', 'board', 'default', 2, 'failed', now())`,
		pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	return pool
}

func TestAProjectionAcrossCampaignsIsAsFarBehindAsItsPlace(t *testing.T) {
	t.Parallel()
	pool := board(t)
	s, err := (&Reader{Pool: pool}).Read(t.Context(), SectionLag)
	if err != nil || s.Unread != nil {
		t.Fatal(err, s.Unread)
	}
	i := slices.IndexFunc(s.Lag, func(l Lag) bool { return l.Projection == "board" })
	if len(s.Lag) != 3 || i < 0 || s.Lag[i].Events != 5 || s.Lag[i].Campaigns != 3 || s.Lag[i].Age <= 0 || !s.Lag[i].Estimated {
		t.Errorf("%+v", s.Lag)
	}
	if len(s.Places) != 2 || s.Places[1] != (ledger.Place{
		Group: "default", Projection: "board", Partition: 1, Position: 5, Keys: 2, KeysFrom: 1,
	}) {
		t.Errorf("%+v", s.Places)
	}
	if p := s.Places[0]; p.Position != 2 || p.Behind != 3 || p.Lag <= 0 || p.Holder != "box/7" || p.Estimated {
		t.Errorf("%+v", p)
	}
}

func TestLagOfAKeyThatFailedIsNotZeroOncePlacesHavePassedIt(t *testing.T) {
	t.Parallel()
	pool := board(t)
	for _, step := range []struct{ name, sql, count string }{
		{
			"a key waits from event 2 on",
			`UPDATE tidemark.readers SET position = 5; DELETE FROM tidemark.failed WHERE campaign_id = 'bob'`,
			`SELECT count(*) FROM tidemark.journal WHERE position >= 2`,
		},
		{
			"all is applied", `DELETE FROM tidemark.failed`,
			`SELECT count(*) FROM tidemark.journal WHERE position > 5`,
		},
		{
			"no worker has begun", `DELETE FROM tidemark.readers`,
			`SELECT count(*) FROM tidemark.journal WHERE position > 0`,
		},
	} {
		if _, err := pool.Exec(t.Context(), step.sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		var want int64
		if err := pool.QueryRow(t.Context(), step.count).Scan(&want); err != nil {
			t.Fatal(err)
		}
		s, err := (&Reader{Pool: pool}).Read(t.Context(), SectionLag)
		if err != nil || s.Unread != nil {
			t.Fatal(err, s.Unread)
		}
		i := slices.IndexFunc(s.Lag, func(l Lag) bool { return l.Projection == "board" })
		if s.Lag[i].Events != want || (s.Lag[i].Age > 0) != (want > 0) {
			t.Errorf("%s: the lag is %+v, want %d events", step.name, s.Lag[i], want)
		}
	}
}

func TestWhatHoldsBackAProjectionAcrossCampaignsIsNamed(t *testing.T) {
	t.Parallel()
	pool := board(t)
	problems := func() string {
		t.Helper()
		s, err := (&Reader{Pool: pool}).Read(t.Context(), SectionLag, SectionJournal, SectionPauses)
		if err != nil || s.Unread != nil {
			t.Fatal(err, s.Unread)
		}
		for i := range s.Places { // the events are from before
			if s.Places[i].Behind > 0 {
				s.Places[i].Lag = time.Hour
			}
		}
		var all []string
		for _, p := range s.Problems() {
			all = append(all, strings.Join([]string{string(p.Severity), p.Where, p.What, p.Do}, ": "))
		}
		return strings.Join(all, "\n")
	}
	if got := problems(); !strings.HasPrefix(got, "warning: projection board, partition 0: is 3 events behind: tidemark failed list") {
		t.Error(got)
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`SET application_name = 'shop'`, `SELECT tidemark.append('idle', '[{"type": "noted"}]')`,
		} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return err
			}
		}
		_, err := pool.Exec(t.Context(), `UPDATE tidemark.readers SET position = 5;
			SELECT tidemark.append('late', '[{"type": "noted"}]')`, pgx.QueryExecModeSimpleProtocol)
		if got := problems(); !strings.Contains(got, "waits for a transaction that has appended and stays open (process ") ||
			!strings.Contains(got, "of shop, idle in transaction") || !strings.Contains(got, "end it: SELECT pg_terminate_backend(") {
			t.Error(got)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE tidemark.readers SET position = 2, expires_at = '-infinity'`); err != nil {
		t.Fatal(err)
	}
	if got := problems(); strings.Count(got, "and no process holds it: start a worker that has its code") != 2 {
		t.Error(got)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
		VALUES ('projection', 'default', 'board', 'a test', 'ada')`); err != nil {
		t.Fatal(err)
	}
	if got := problems(); strings.Contains(got, "behind") {
		t.Error(got)
	}
}

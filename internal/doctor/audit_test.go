package doctor_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// An owner can disable the triggers. The chain still shows what was changed then.
func TestTheDoctorNamesTheFirstRecordOfOperatorsThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, want string }{
		"none": {`SELECT`, "links 1 to 6 of the log of operators fit"},
		"an actor was changed": {`UPDATE tidemark.operator_log SET actor = 'eve'
			WHERE link = 3`, "row 3 (link 3) was changed"},
		"an address was changed": {`UPDATE tidemark.operator_log SET address = '::1'
			WHERE link = 1`, "row 1 (link 1) was changed"},
		"a hash was changed": {`UPDATE tidemark.operator_log SET hash = sha256('')
			WHERE link = 2`, "row 2 (link 2) was changed"},
		"one was removed": {`DELETE FROM tidemark.operator_log
			WHERE link = 3`, "link 3 is missing before row 4"},
		"the last was removed": {`DELETE FROM tidemark.operator_log
			WHERE link = 6`, "links 6 to 6, the last, are missing"},
		"all were removed": {`DELETE FROM tidemark.operator_log`, "links 1 to 6, the last, are missing"},
		"one was written beside": {`INSERT INTO tidemark.operator_log (actor, act, at)
			VALUES ('eve', 'x', now() - interval '1 hour')`, "record 7 is not in the chain"},
		"one was changed and one pruned": {`UPDATE tidemark.operator_log SET reason = 'x' WHERE link = 5;
			SELECT tidemark.prune_log('1 day', 2)`, "row 5 (link 5) was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.operator_log (actor, act, at, detail)
				SELECT 'ada', 'x', now() - interval '1 month', '{"b": 1.0, "a": null}'
				FROM generate_series(1, 6)`); err != nil {
				t.Fatal(err)
			}
			if _, err := pool.Exec(t.Context(), `SET session_replication_role = replica;
				`+c.sql+`; RESET session_replication_role`); err != nil {
				t.Fatal(err)
			}
			finding(t, pool, c.want)
		})
	}
}

func finding(t *testing.T, pool *pgxpool.Pool, want string) {
	t.Helper()
	findings, err := doctor.Run(t.Context(), pool, doctor.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	f := byCheck(t, findings)["operator-log"]
	if !strings.Contains(f.Detail, want) || (f.Status == doctor.OK) != strings.HasSuffix(want, " fit") {
		t.Errorf("found %+v, want %q", f, want)
	}
}

func TestActsThatCommitAtTheSameTimeAreChained(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	write := func(tx pgx.Tx, actor string) {
		for range 3 {
			if err := publications.WriteLog(t.Context(), tx, publications.Act{
				By: actor, Way: "api", TokenID: 7,
				Address: "10.0.0.1",
			},
				"x", publications.Key{}, "", 0, nil); err != nil {
				t.Error(err)
			}
		}
	}
	open, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write(open, "slow") // has written, and must not block other commits
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { write(tx, "fast"); return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := open.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	finding(t, pool, "links 1 to 15 of the log of operators fit")
	var who string
	if err := pool.QueryRow(t.Context(), `SELECT concat_ws(' ', actor, way, token_id, address,
		database_user = session_user) FROM tidemark.operator_log
		WHERE link = 15`).Scan(&who); err != nil || who != "slow api 7 10.0.0.1 t" {
		t.Errorf("the last record is %q, %v", who, err)
	}
}

func TestThePrunedLogStillFits(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.operator_log (actor, act, at)
		SELECT 'ada', 'x', now() - n * interval '10 hours' FROM generate_series(6, 1, -1) n`); err != nil {
		t.Fatal(err)
	}
	// The fourth is 30 hours old and the fifth is 20. The database keeps at least a day of records.
	for _, want := range []int64{3, 1, 0} {
		if n, err := publications.PruneLog(t.Context(), pool, time.Hour, 3); n != want || err != nil {
			t.Errorf("pruned %d, %v; want %d", n, err, want)
		}
	}
	finding(t, pool, "links 5 to 6 of the log of operators fit")
	if _, err := pool.Exec(t.Context(), `SET session_replication_role = replica; DELETE FROM tidemark.operator_log
		WHERE link = 5; RESET session_replication_role;
		UPDATE tidemark.operator_log_head SET keep = '0'`); err != nil {
		t.Fatal(err)
	}
	if n, err := publications.PruneLog(t.Context(), pool, time.Hour, 3); err == nil {
		t.Errorf("pruned %d of a log that does not fit", n)
	}
	finding(t, pool, "link 5 is missing before row 6")
}

// TestTheDoctorVerifiesTheNewestRecordsOfALongLog has as many records as it reads, and one more.
func TestTheDoctorVerifiesTheNewestRecordsOfALongLog(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	beside := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), `SET session_replication_role = replica; `+sql+`; RESET session_replication_role`); err != nil {
			t.Fatal(err)
		}
	}
	beside(`INSERT INTO tidemark.operator_log (actor, act, at) SELECT 'ada', 'x', now() - interval '1 month'
			FROM generate_series(1, 100000);
		DO $$
		BEGIN
			WHILE EXISTS (SELECT FROM tidemark.operator_log l WHERE l.link IS NULL) LOOP
				PERFORM tidemark.link_rows(h) FROM tidemark.operator_log_head h;
			END LOOP;
		END
		$$`)
	const change, restore = `UPDATE tidemark.operator_log SET actor = 'eve' WHERE link = 1`,
		`UPDATE tidemark.operator_log SET actor = 'ada' WHERE link <= 2`
	finding(t, pool, "links 1 to 100000 of the log of operators fit")
	beside(change)
	finding(t, pool, "row 1 (link 1) was changed")
	beside(restore)
	if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.operator_log (actor, act) VALUES ('ada', 'x')`); err != nil {
		t.Fatal(err)
	}
	finding(t, pool, "links 2 to 100001 of the log of operators fit")
	beside(change)
	finding(t, pool, "links 2 to 100001 of the log of operators fit") // one that it does not read
	beside(restore + `; UPDATE tidemark.operator_log SET actor = 'eve' WHERE link = 2`)
	finding(t, pool, "row 2 (link 2) was changed")
	beside(restore + `; UPDATE tidemark.operator_log SET hash = sha256('') WHERE link = 1`)
	finding(t, pool, "row 2 (link 2) was changed")
	beside(`DELETE FROM tidemark.operator_log WHERE link = 1`)
	finding(t, pool, "link 1 is missing before row 2")
}

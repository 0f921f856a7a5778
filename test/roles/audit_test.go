package roles_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// Roles write to the operators' log through a function only, and no role can rewrite it.
func TestTheLogOfOperatorsCannotBeRewritten(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	_, err := in.admin.Exec(t.Context(), `INSERT INTO tidemark.operator_log (actor, act, at)
		VALUES ('ada', 'x', now() - interval '2 years'), ('ada', 'x', now())`)
	must(t, err)
	change := []string{
		`UPDATE tidemark.operator_log
			SET actor = 'ada'`, `UPDATE tidemark.operator_log
			SET link = NULL`, `DELETE FROM tidemark.operator_log`, `TRUNCATE tidemark.operator_log`,
	}
	for _, sql := range change {
		var refused *pgconn.PgError
		if _, err := in.admin.Exec(t.Context(), sql); !errors.As(err, &refused) || refused.Code != "TM009" {
			t.Errorf("%s by a superuser: %v", sql, err)
		}
	}
	forge := append(change, `INSERT INTO tidemark.operator_log (actor, act)
		VALUES ('ada', 'x')`, `UPDATE tidemark.operator_log_head SET pruned = 99`, `DELETE FROM tidemark.operator_log_head`,
		`TRUNCATE tidemark.operator_log_head`, `INSERT INTO tidemark.operator_log_head DEFAULT
			VALUES`, `ALTER TABLE tidemark.operator_log DISABLE TRIGGER ALL`)
	pools := map[string]*pgxpool.Pool{}
	for _, role := range roles() {
		pools[role] = in.as(t, role)
		refuses(t, pools[role], forge...)
	}
	// The publisher prunes old rows and writes nothing.
	publishers := pools["publisher"]
	if n, err := publications.PruneLog(t.Context(), publishers, time.Microsecond, 10); n != 1 || err != nil {
		t.Errorf("the publisher pruned %d, %v; want 1", n, err)
	}
	refuses(t, publishers, `SELECT tidemark.log_act('ada', 'x', '', '', '', '', 0, NULL, '', 0, '')`,
		`SELECT FROM tidemark.operator_log`, `SELECT FROM tidemark.operator_log_head`)
	for _, role := range []string{"worker", "process", "operator"} {
		pool := pools[role]
		must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return publications.WriteLog(t.Context(), tx, publications.Act{By: "ada", Way: "cli"}, "x", publications.Key{}, "",
				0, nil)
		}))
		records, err := publications.Log(t.Context(), pool, publications.LogFilter{Limit: 1})
		must(t, err)
		if got := records[0]; got.Way != "cli" || got.DatabaseUser != in.prefix+"_"+role+"_login" {
			t.Errorf("the record is %+v", got)
		}
	}
}

// Under a stricter isolation the commit of an act fails if another act has committed meanwhile.
func TestActsThatMeetAreToldToTryAgain(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	pool := in.as(t, "operator")
	strict, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	must(t, err)
	must(t, act(t, strict))
	must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return act(t, tx) }))
	var refused *pgconn.PgError
	if err := strict.Commit(t.Context()); !errors.As(err, &refused) || refused.Code != "40001" {
		t.Errorf("the commit answers %v, want 40001", err)
	}
}

func act(t *testing.T, tx pgx.Tx) error {
	t.Helper()
	return publications.WriteLog(t.Context(), tx, publications.Act{By: "ada"}, "x", publications.Key{}, "", 0, nil)
}

// Acts go on while a session sits in a transaction that holds the head of the log. Their records are
// linked later.
func TestNoSessionHoldsUpTheActsOfOthers(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	pool := in.as(t, "operator")
	holders := map[string]*pgxpool.Pool{"superuser": in.admin, "worker": in.as(t, "worker"), "publisher": in.as(t, "publisher")}
	for _, holder := range []struct{ role, sql string }{
		{"superuser", `SELECT FROM tidemark.operator_log_head FOR UPDATE`},
		{"worker", `SELECT tidemark.prune_log('1 day', 10)`},
		{"publisher", `SELECT tidemark.prune_log('1 day', 10)`},
		{"worker", `SELECT tidemark.log_act('eve', 'x', '', '', '', '', 0, NULL, '', 0, ''); SET CONSTRAINTS ALL IMMEDIATE`},
	} {
		open, err := holders[holder.role].Begin(t.Context())
		must(t, err)
		_, err = open.Exec(t.Context(), holder.sql, pgx.QueryExecModeSimpleProtocol)
		must(t, err)
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			for range 20 {
				if err := act(t, tx); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Errorf("acts while a %s holds the head: %v", holder.role, err)
		}
		if n, err := publications.PruneLog(t.Context(), holders["worker"], time.Hour, 10); n != 0 || err != nil {
			t.Errorf("another prune meanwhile: %d, %v", n, err)
		}
		must(t, open.Commit(t.Context()))
	}
	must(t, publications.LinkLog(t.Context(), holders["worker"]))
	var records, links int
	var fault string
	must(t, in.admin.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM tidemark.operator_log), w.link, coalesce(w.fault, '')
		FROM tidemark.walk_log(0, '', 1000) w`).Scan(&records, &links, &fault))
	if records != 81 || links != records || fault != "" {
		t.Errorf("%d records, %d links, fault %q", records, links, fault)
	}
}

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
	for _, role := range []string{"appender", "worker", "publisher", "reader", "operator"} {
		pools[role] = in.as(t, role)
		refuses(t, pools[role], forge...)
	}
	// The publisher prunes old rows and writes nothing.
	publishers := pools["publisher"]
	if n, err := publications.PruneLog(t.Context(), publishers, time.Microsecond, 10); n != 1 || err != nil {
		t.Errorf("the publisher pruned %d, %v; want 1", n, err)
	}
	refuses(t, publishers, `SELECT tidemark.log_act('ada', 'x', '', '', '', '', 0, NULL, '', 0, '')`)
	for _, role := range []string{"worker", "operator"} {
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

// The commit of an act waits for another act at most 5 s. Under a stricter isolation it fails if
// another act has committed meanwhile.
func TestActsThatMeetAreToldToTryAgain(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	pool := in.as(t, "operator")
	write := func(tx pgx.Tx) error {
		return publications.WriteLog(t.Context(), tx, publications.Act{By: "ada"}, "x", publications.Key{}, "", 0, nil)
	}
	fails := func(tx pgx.Tx, code string) {
		t.Helper()
		var refused *pgconn.PgError
		if err := tx.Commit(t.Context()); !errors.As(err, &refused) || refused.Code != code {
			t.Errorf("the commit answers %v, want %s", err, code)
		}
	}
	strict, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	must(t, err)
	must(t, write(strict))
	must(t, pgx.BeginFunc(t.Context(), pool, write))
	fails(strict, "40001")

	holder, err := in.admin.Begin(t.Context())
	must(t, err)
	_, err = holder.Exec(t.Context(), `SELECT FROM tidemark.operator_log_head FOR UPDATE`)
	must(t, err)
	waiting, err := pool.Begin(t.Context())
	must(t, err)
	must(t, write(waiting))
	fails(waiting, "55P03")
	must(t, holder.Rollback(t.Context()))
}

package roles_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/test/support/acting"
)

// another is a further login of a role.
func (in installation) another(t *testing.T, role string) *pgxpool.Pool {
	t.Helper()
	name := in.prefix + "_" + role
	_, err := in.admin.Exec(t.Context(),
		fmt.Sprintf("CREATE ROLE %[1]s_other LOGIN PASSWORD 'secret' IN ROLE %[1]s", name))
	must(t, err)
	u, err := url.Parse(in.url)
	must(t, err)
	u.User = url.UserPassword(name+"_other", "secret")
	return in.connect(t, u.String())
}

// answers expects each statement to fail with an SQLSTATE.
func answers(t *testing.T, pool *pgxpool.Pool, state string, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		_, err := pool.Exec(t.Context(), sql)
		var failed *pgconn.PgError
		if !errors.As(err, &failed) || failed.Code != state {
			t.Errorf("%s: want %s, got %v", sql, state, err)
		}
	}
}

// TestAnErasureIsThatOfItsLogin has another operator use the number and the generation of a running erasure,
// which both can read, and its own operator use it for another campaign.
func TestAnErasureIsThatOfItsLogin(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	in.fill(t)
	must(t, pgx.BeginFunc(t.Context(), in.admin, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT tidemark.append('other', '[{"type": "x"}]')`)
		return err
	}))
	one, two := in.as(t, "operator"), in.another(t, "operator")
	const begin = `SELECT FROM tidemark.begin_erasure('c', NULL, NULL, NULL, 'ada', 'asked', true)`
	_, err := one.Exec(t.Context(), begin)
	must(t, err)
	calls := []string{
		`SELECT tidemark.hold_erasure(1, %d)`, `SELECT tidemark.erase(1, %d, 'c', NULL, 10)`,
		`SELECT tidemark.erase_traces(1, %d, 'c', true)`, `SELECT tidemark.erase_keys(1, %d, '{}', 0, 10)`,
		`SELECT tidemark.erase_items(1, %d, '{}', 0, 10)`, `SELECT tidemark.forget_keys(1, %d, '{ann}')`,
		`SELECT tidemark.erase_scheduled(1, %d, 'c', '{}', '{}', NULL, 0, 10)`, `SELECT tidemark.end_erasure(1, %d)`,
	}
	of := func(generation int) (all []string) {
		for _, call := range calls {
			all = append(all, fmt.Sprintf(call, generation))
		}
		return all
	}
	answers(t, two, "TM017", append(of(1), begin)...)
	_, err = two.Exec(t.Context(), `SELECT tidemark.release_erasure(1, 1)`)
	must(t, err)
	answers(t, two, "TM017", begin) // it was not released
	answers(t, one, "22023", `SELECT tidemark.erase(1, 1, 'other', NULL, 10)`,
		`SELECT tidemark.erase_traces(1, 1, 'other', true)`,
		`SELECT tidemark.erase_scheduled(1, 1, 'other', '{}', '{}', NULL, 0, 10)`)
	_, err = in.admin.Exec(t.Context(), `UPDATE tidemark.erasures SET held_until = now()`)
	must(t, err)
	_, err = two.Exec(t.Context(), strings.Replace(begin, "ada", "bob", 1)) // the same request continues it
	must(t, err)
	answers(t, one, "TM017", append(of(1), of(2)...)...)
	_, err = two.Exec(t.Context(), `SELECT tidemark.end_erasure(1, 2)`)
	must(t, err)
	var log string
	must(t, in.admin.QueryRow(t.Context(), `SELECT string_agg(concat_ws(' ', act, actor, reason, campaign_id,
			replace(database_user, $1, ''), detail), E'\n' ORDER BY id) FROM tidemark.operator_log`, in.prefix).Scan(&log))
	if want := `erasure_begun ada asked c _operator_login {"erasure": 1, "generation": 1}
erasure_begun bob asked c _operator_other {"erasure": 1, "generation": 2}`; log != want {
		t.Errorf("the log has\n%s\nwant\n%s", log, want)
	}
}

// TestWrappingAKeyAnewIsOnRecord: who overwrites wrapped keys makes what they have sealed unreadable.
func TestWrappingAKeyAnewIsOnRecord(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	operator := in.as(t, "operator")
	refuses(t, operator, `UPDATE tidemark.keys SET wrapped = sha256('x')`, `UPDATE tidemark.keys SET wrapped_by = 'x'`,
		`SELECT FROM tidemark.keys FOR UPDATE`)
	_, err := in.admin.Exec(t.Context(), `INSERT INTO tidemark.keys (id, subject, wrapped, wrapped_by)
		VALUES ('00000000-0000-7000-8000-000000000001', sha256('ann'), sha256('x'), 'a')`)
	must(t, err)
	const rewrap = `SELECT tidemark.rewrap_keys('{00000000-0000-7000-8000-000000000001}', '{a}', ARRAY[sha256('y')], 'b')`
	for _, role := range []string{"appender", "worker", "process", "publisher", "reader"} {
		refuses(t, in.as(t, role), rewrap)
	}
	for _, want := range []int{1, 0} {
		var n int
		must(t, operator.QueryRow(t.Context(), rewrap).Scan(&n))
		if n != want {
			t.Errorf("%d keys are wrapped anew, want %d", n, want)
		}
	}
	answers(t, operator, "22023", strings.Replace(rewrap, "{a}", "{a,b}", 1))
	var log string
	must(t, in.admin.QueryRow(t.Context(), `SELECT string_agg(concat_ws(' ', act, database_user = $1, detail), E'\n')
		FROM tidemark.operator_log`, in.prefix+"_operator_login").Scan(&log))
	if log != `keys_rewrapped t {"keys": 1, "wrapped_by": "b"}` {
		t.Errorf("the log has %s", log)
	}
}

// TestAPublisherLeavesThePlacesOfProjections: a place that is moved makes a read model, or a process, skip events.
func TestAPublisherLeavesThePlacesOfProjections(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	_, err := in.admin.Exec(t.Context(), `INSERT INTO tidemark.readers (kind, topic, publisher, position, reacts_after)
		VALUES ('projection', 'across', '0', 5, NULL), ('projection', 'process', '0', 5, 0),
			('publisher', 'all', 'it', 5, NULL)`)
	must(t, err)
	publishers := in.as(t, "publisher")
	refuses(t, publishers, `UPDATE tidemark.readers SET position = 9 WHERE topic = 'across'`,
		`UPDATE tidemark.readers SET position = 9`, `UPDATE tidemark.readers SET reacts_after = 9 WHERE topic = 'process'`,
		`UPDATE tidemark.readers SET kind = 'publisher' WHERE topic = 'across'`, `DELETE FROM tidemark.readers`,
		`UPDATE tidemark.readers SET kind = 'projection' WHERE topic = 'all'`,
		`INSERT INTO tidemark.readers (kind, topic, publisher, position) VALUES ('projection', 'forged', '0', 0)`)
	for _, role := range []string{"worker", "process", "operator"} {
		_, err := in.as(t, role).Exec(t.Context(), `UPDATE tidemark.readers SET position = position + 1`)
		must(t, err)
	}
	_, err = publishers.Exec(t.Context(), `UPDATE tidemark.readers SET position = 9 WHERE kind = 'publisher';
		INSERT INTO tidemark.readers (topic, publisher, position) VALUES ('all', 'new', 0);
		DELETE FROM tidemark.readers WHERE kind = 'publisher'`, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
}

// TestARegistryThatAWorkerHasForgedDropsNothingOfOthers has a worker's role name tables and schemas of others as those
// of a projection, which a superuser then removes.
func TestARegistryThatAWorkerHasForgedDropsNothingOfOthers(t *testing.T) {
	t.Parallel()
	for what, forge := range map[string]string{
		"its tables":        names,
		"the journal":       `UPDATE tidemark.projections SET schema_name = 'tidemark', table_names = '{journal}'`,
		"a schema":          previous + `'vault', '{}')`,
		"the own schema":    previous + `'tidemark', '{}')`,
		"who vouches":       names + `, written_by = 'postgres'`,
		"who vouches later": names + `; UPDATE tidemark.projections SET written_by = 'postgres'`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			in := install(t, true)
			_, err := in.admin.Exec(t.Context(), `CREATE SCHEMA vault; CREATE TABLE vault.treasure (n integer);
				CREATE ROLE `+in.prefix+`_app; ALTER TABLE vault.treasure OWNER TO `+in.prefix+`_app`,
				pgx.QueryExecModeSimpleProtocol)
			must(t, err)
			applies := in.as(t, "worker")
			_, err = worker(t, applies, 1).Drain(t.Context())
			must(t, err)
			_, err = applies.Exec(t.Context(), forge, pgx.QueryExecModeSimpleProtocol)
			must(t, err)
			_, err = acting.Do(t.Context(), admin.On(in.admin), confirmed("counted"), "removeProjection", "projection=counted",
				"tables=true")
			if err == nil || !strings.Contains(err.Error(), in.prefix+"_worker") {
				t.Errorf("the removal: %v", err)
			}
			for _, table := range []string{"vault.treasure", "tidemark.journal"} {
				var there bool
				must(t, in.admin.QueryRow(t.Context(), `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&there))
				if !there {
					t.Errorf("%s is dropped", table)
				}
			}
		})
	}
}

const names = `UPDATE tidemark.projections SET schema_name = 'vault', table_names = '{treasure}'`

const previous = `INSERT INTO tidemark.projections (name, consumer_group, version, state, schema_name, table_names)
	VALUES ('counted~previous', 'default', 1, 'active', `

// TestAnActDoesNotLinkAllThatOthersHaveLeft: a role can leave any number of records out of the chain.
func TestAnActDoesNotLinkAllThatOthersHaveLeft(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	leaves, operator := in.as(t, "worker"), in.as(t, "operator")
	must(t, pgx.BeginFunc(t.Context(), leaves, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT set_config('tidemark.unlinked', pg_current_xact_id()::text, false);
			SELECT tidemark.log_act('eve', 'x', '', '', '', '', 0, NULL, '', 0, '') FROM generate_series(1, 3500)`,
			pgx.QueryExecModeSimpleProtocol)
		return err
	}))
	linked := func() (n int) {
		must(t, in.admin.QueryRow(t.Context(), `SELECT count(link) FROM tidemark.operator_log`).Scan(&n))
		return n
	}
	was := linked()
	must(t, pgx.BeginFunc(t.Context(), operator, func(tx pgx.Tx) error { return act(t, tx) }))
	if n := linked() - was; n > 1000 {
		t.Errorf("an act has linked %d records", n)
	}
	must(t, publications.LinkLog(t.Context(), leaves))
	var fault string
	must(t, in.admin.QueryRow(t.Context(),
		`SELECT coalesce(w.fault, '') FROM tidemark.walk_log(0, '', 10000) w`).Scan(&fault))
	if n := linked(); n != 3501 || fault != "" {
		t.Errorf("%d records are linked, fault %q", n, fault)
	}
}

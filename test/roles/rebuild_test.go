package roles_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/test/support/acting"
)

// TestAnOperatorEndsARebuildOfTheRoleOfProcesses has an operator abort a rebuild whose tables may only be
// dropped by a member of that role, begin it anew, abort that, and begin once more.
func TestAnOperatorEndsARebuildOfTheRoleOfProcesses(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	in.fill(t)
	operator, process, applies := in.as(t, "operator"), in.as(t, "process"), in.as(t, "worker")
	drain := func(pool *pgxpool.Pool) {
		t.Helper()
		_, err := worker(t, pool, 1).Drain(t.Context())
		must(t, err)
	}
	drain(process)
	act := func(name string, params ...string) (string, error) {
		t.Helper()
		done, err := acting.Do(t.Context(), admin.On(operator), confirmed("counted"), name,
			append(params, "projection=counted")...)
		if err != nil {
			return "", err
		}
		return string(done.Detail), nil
	}
	expect := func(when, want string) {
		t.Helper()
		var got string
		must(t, in.admin.QueryRow(t.Context(), `SELECT concat_ws(', ',
			(SELECT string_agg(concat_ws(' ', name, version, state), ', ' ORDER BY name) FROM tidemark.projections
				WHERE name LIKE 'counted%'),
			(SELECT 'schema' FROM pg_namespace WHERE nspname = 'tidemark_next_counted'),
			(SELECT 'asked by ' || actor FROM tidemark.rebuilds))`).Scan(&got))
		if got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	begin := func() {
		t.Helper()
		_, err := act("startRebuild")
		must(t, err)
	}
	begin()
	must(t, worker(t, process, 1).Register(t.Context()))
	expect("a rebuild is under way", "counted 1 active, counted~next 1 copying, schema, asked by anna")
	if detail, err := act("abortRebuild"); err != nil || detail != `{"projection":"counted","left":true}` {
		t.Errorf("the abort says %s, %v", detail, err)
	}
	expect("it is aborted", "counted 1 active, counted~next -1 requested, schema")
	begin()
	begin() // the options of the one that waits
	if all, err := rebuild.Rebuilds(t.Context(), operator, "counted"); err != nil || len(all) != 1 ||
		all[0].State != "requested" || all[0].Version != 0 {
		t.Errorf("the list has %+v, %v", all, err)
	}
	if _, err := act("startRebuild", "version=1"); err == nil {
		t.Error("another version is asked for meanwhile")
	}
	drain(applies) // of another role, which may not drop the tables either
	expect("one waits until the tables are gone", "counted 1 active, counted~next -1 requested, schema, asked by anna")
	_, err := act("abortRebuild")
	must(t, err)
	expect("it is aborted too", "counted 1 active, counted~next -1 requested, schema")
	drain(process)
	expect("a worker of the role has dropped the tables", "counted 1 active")
	if _, err := act("abortRebuild"); !errors.Is(err, rebuild.ErrNoRebuild) {
		t.Errorf("aborted once more: %v", err)
	}

	begin()
	must(t, worker(t, process, 1).Register(t.Context()))
	_, err = act("abortRebuild")
	must(t, err)
	begin()
	drain(process)
	expect("the rebuild that waited is done", "counted 1 active, counted~previous 1 active")
	for _, tables := range []string{"tables=false", "tables=true"} {
		if _, err := act("removeProjection", tables); !errors.Is(err, rebuild.ErrNotOurs) {
			t.Errorf("an operator removes it with %s: %v", tables, err)
		}
	}
	_, err = acting.Do(t.Context(), admin.On(process), confirmed("counted"), "removeProjection", "projection=counted",
		"tables=true")
	must(t, err)
	expect("a worker's login has removed it", "")
}

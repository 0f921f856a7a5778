package roles_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

// TestWhoMayReadAReadModel holds sessions against tables of several owners.
func TestWhoMayReadAReadModel(t *testing.T) {
	t.Parallel()
	in := install(t, false)
	logins := map[string]string{"superuser": in.url}
	for _, role := range []string{"worker", "operator"} {
		logins[role] = in.login(t, role)
	}
	for login, member := range map[string]string{
		"second": "IN ROLE %[1]s_worker", "reading": "IN ROLE %[1]s_worker, %[1]s_reader", "alone": "",
		"creating": "CREATEDB IN ROLE %[1]s_worker", "granting": "; GRANT %[1]s_worker TO %[1]s_granting WITH ADMIN OPTION",
		"base": "IN ROLE %[1]s_worker; ALTER DATABASE %[2]s OWNER TO %[1]s_base",
	} {
		_, err := in.admin.Exec(t.Context(), fmt.Sprintf("CREATE ROLE %[1]s_"+login+" LOGIN PASSWORD 'secret' "+member,
			in.prefix, in.admin.Config().ConnConfig.Database), pgx.QueryExecModeSimpleProtocol)
		must(t, err)
		u, err := url.Parse(in.url)
		must(t, err)
		u.User = url.UserPassword(in.prefix+"_"+login, "secret")
		logins[login] = u.String()
	}
	_, err := in.admin.Exec(t.Context(), strings.ReplaceAll(`
		CREATE TABLE tidemark_views.of_worker (); ALTER TABLE tidemark_views.of_worker OWNER TO tm_worker;
		CREATE TABLE tidemark_views.of_alone (); ALTER TABLE tidemark_views.of_alone OWNER TO tm_alone;
		CREATE TABLE tidemark_views.of_superuser ();
		CREATE SCHEMA workers AUTHORIZATION tm_worker; CREATE TABLE workers.of_superuser ()`, "tm_", in.prefix+"_"),
		pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	for _, c := range []struct {
		login, first, schema, table string
		may                         bool
	}{
		{"worker", "", "tidemark_views", "of_worker", true},
		{"second", "", "tidemark_views", "of_worker", true}, // without SET ROLE
		{"alone", "", "tidemark_views", "of_alone", true},
		{"superuser", "", "tidemark_views", "of_superuser", true},
		{"operator", "", "tidemark_views", "of_superuser", true},
		{"worker", "", "tidemark_views", "none", true},

		{"operator", "", "tidemark_views", "of_worker", false},
		{"operator", "SET ROLE tm_worker", "tidemark_views", "of_worker", false},
		{"superuser", "", "tidemark_views", "of_worker", false},
		{"superuser", "SET ROLE tm_worker", "tidemark_views", "of_worker", false},
		{"superuser", "SET SESSION AUTHORIZATION tm_worker_login", "tidemark_views", "of_worker", false},
		{"superuser", "", "workers", "of_superuser", false}, // the schema's owner can exchange it
		{"operator", "", "workers", "of_superuser", false},
		{"worker", "", "tidemark_views", "of_alone", false},
		{"alone", "", "tidemark_views", "of_worker", false},
		{"reading", "", "tidemark_views", "of_worker", false},
		{"creating", "", "tidemark_views", "of_worker", false},
		{"granting", "", "tidemark_views", "of_worker", false},
		{"base", "", "tidemark_views", "of_worker", false},
	} {
		what := strings.TrimSpace(fmt.Sprintf("%s, %s.%s after %q", c.login, c.schema, c.table, c.first))
		conn, err := pgx.Connect(t.Context(), logins[c.login])
		must(t, err)
		if c.first != "" {
			_, err = conn.Exec(t.Context(), strings.ReplaceAll(c.first, "tm_", in.prefix+"_"))
			must(t, err)
		}
		err = registry.Readable(t.Context(), conn, c.schema, []string{c.table})
		var foreign *lookback.OwnerError
		if c.may && err != nil || !c.may && (!errors.As(err, &foreign) || foreign.Table != c.schema+"."+c.table) {
			t.Errorf("%s: %v", what, err)
		}
		must(t, conn.Close(t.Context()))
	}
}

// TestAWorkerVerifiesWhatItApplies has a worker's login that may do more than the owner of the tables.
func TestAWorkerVerifiesWhatItApplies(t *testing.T) {
	t.Parallel()
	in := install(t, false)
	in.fill(t)
	pool := in.as(t, "worker")
	_, err := worker(t, pool, 1).Drain(t.Context())
	must(t, err)
	_, err = in.admin.Exec(t.Context(), fmt.Sprintf("GRANT pg_monitor TO %s_worker_login", in.prefix))
	must(t, err)
	code := worker(t, pool, 1)
	_, err = code.Verify(t.Context(), lookback.VerifyRequest{Projection: "heroes", All: true})
	var foreign *lookback.OwnerError
	if !errors.As(err, &foreign) {
		t.Errorf("a process that does not apply verifies: %v", err)
	}
	must(t, code.Register(t.Context()))
	report, err := code.Verify(t.Context(), lookback.VerifyRequest{Projection: "heroes", All: true})
	if err != nil || report.Campaigns == 0 || report.Differences() > 0 {
		t.Errorf("a worker verifies: %+v, %v", report, err)
	}
}

// TestNobodyExchangesATableThatIsAboutToBeRead shows the lock, and that names mean what they mean now.
func TestNobodyExchangesATableThatIsAboutToBeRead(t *testing.T) {
	t.Parallel()
	in := install(t, false)
	pool := in.as(t, "worker")
	_, err := pool.Exec(t.Context(), "CREATE TABLE tidemark_views.model (n integer)")
	must(t, err)
	tx, err := pool.Begin(t.Context())
	must(t, err)
	must(t, registry.HoldReadable(t.Context(), tx, "tidemark_views", []string{"model"}))
	_, err = in.admin.Exec(t.Context(), "SET lock_timeout = '50ms'; ALTER TABLE tidemark_views.model RENAME TO other",
		pgx.QueryExecModeSimpleProtocol)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "55P03" {
		t.Errorf("another table takes the place of one that is about to be read: %v", err)
	}
	must(t, tx.Rollback(t.Context()))

	err = pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "SELECT 1 FROM tidemark.limits") // takes the snapshot
		must(t, err)
		_, err = in.admin.Exec(t.Context(), "ALTER TABLE tidemark_views.model RENAME TO other; "+
			"CREATE TABLE tidemark_views.model (n integer); ALTER TABLE tidemark_views.model OWNER TO "+in.prefix+"_worker",
			pgx.QueryExecModeSimpleProtocol)
		must(t, err)
		return registry.HoldReadable(t.Context(), tx, "tidemark_views", []string{"model"})
	})
	var foreign *lookback.OwnerError
	if !errors.As(err, &foreign) {
		t.Errorf("a table that has come after the snapshot is read: %v", err)
	}
}

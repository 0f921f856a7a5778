package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// perWorker is the maximum number of connections of a worker with default settings: four to apply,
// and one each to claim, renew, record and listen.
const perWorker = 8

// autovacuum compares the storage options of the hot tables with the migrations.
func autovacuum(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	var on bool
	if err := tx.QueryRow(ctx, queryAutovacuum).Scan(&on); err != nil {
		return Finding{}, err
	}
	if !on {
		return fail("autovacuum is off",
			"turn autovacuum on: the outbox and the leases depend on it"), nil
	}
	wrong, err := texts(ctx, tx, queryStorage)
	if err != nil {
		return Finding{}, err
	}
	detail := "hot tables have the storage settings of the migrations"
	if len(wrong) > 0 {
		detail = "settings differ from the migrations: " + strings.Join(wrong, "; ")
	}
	return verdict(len(wrong) == 0, Warn, detail,
		"ALTER TABLE … SET these; docs/guides/operations/autovacuum.md says why"), nil
}

func idleTransactions(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	var limit string
	if err := tx.QueryRow(ctx, queryIdle).Scan(&limit); err != nil {
		return Finding{}, err
	}
	return verdict(limit != "0", Warn, "idle_in_transaction_session_timeout is "+limit,
		"ALTER DATABASE … SET idle_in_transaction_session_timeout = '60s': a forgotten transaction keeps dead "+
			"rows in the hot tables, and after an append it blocks readers of the journal"), nil
}

// privileges judges this role by what it is for. It looks for privileges that workers or publishers need and
// it lacks, and for functions that need roles.sql again.
func privileges(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	var of string
	if err := tx.QueryRow(ctx, queryRole).Scan(&of); err != nil {
		return Finding{}, err
	}
	if of == "" {
		return Finding{Status: OK, Detail: "a role that appends or reads: workers and publishers need another"}, nil
	}
	missing, err := rows.All(ctx, tx, pgx.RowTo[string], "", queryPrivileges, of)
	if err != nil {
		return Finding{}, err
	}
	if len(missing) > 0 {
		return warn("missing: "+strings.Join(missing, ", "),
			"grant it, or run tidemark migrate roles again after a migration: "+of+" need it"), nil
	}
	return Finding{Status: OK, Detail: "all that " + of + " need"}, nil
}

// extensions looks for tables of Tidemark that are no longer plain tables of this server. It queries
// an extension's catalogue only if it exists.
func extensions(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	for _, by := range []struct{ name, catalogue, tables, remedy string }{
		{
			"Citus", "pg_catalog.pg_dist_partition",
			tablesOfCitus,
			"SELECT undistribute_table('tidemark.…') for each: locks and sequences are each node's own, so appends to " +
				"several nodes pass each other",
		},
		{
			"Timescale", "_timescaledb_catalog.hypertable",
			tablesOfTimescale,
			"make them plain tables: Tidemark's plans and unique keys need that",
		},
	} {
		var there bool
		if err := tx.QueryRow(ctx, queryCatalogue, by.catalogue).Scan(&there); err != nil {
			return Finding{}, err
		}
		if !there {
			continue
		}
		tables, err := texts(ctx, tx, by.tables)
		if err != nil {
			return Finding{}, err
		}
		if len(tables) > 0 {
			return fail(by.name+" has "+strings.Join(tables, ", "), by.remedy), nil
		}
	}
	return Finding{Status: OK, Detail: "tables are plain tables of this server"}, nil
}

// rowSecurity looks for policies on tables of Tidemark, whichever roles they apply to.
func rowSecurity(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	err := feed.AnyRowSecurity(ctx, tx)
	if on, is := errors.AsType[*feed.RowSecurityError](err); is {
		return fail("on for "+strings.Join(on.Tables, ", ")+": roles that policies apply to miss rows", on.Remedy()), nil
	}
	return Finding{Status: OK, Detail: "off for all tables of Tidemark"}, err
}

func texts(ctx context.Context, db rows.Querier, query string) ([]string, error) {
	return rows.All(ctx, db, pgx.RowTo[string], "", query)
}

// pooler looks for a pooler that gives each transaction another session, and tests whether prepared
// statements work through it.
func pooler(ctx context.Context, pool *pgxpool.Pool, timeout time.Duration) Finding {
	ctx, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	between, works, err := preparedThrough(ctx, pool)
	unfit, is := errors.AsType[*unfitError](err)
	switch {
	case is:
		return warn(unfit.Error(), unfit.remedy())
	case err != nil:
		return warn(fmt.Sprintf("could not look: %v", err),
			"look again when the server is less busy; two connections are needed")
	case !between:
		return Finding{Status: OK, Detail: "none: connections are to the server itself"}
	case !works:
		return warn("there is one, and prepared statements do not get through it",
			"set max_prepared_statements in PgBouncer 1.21 or newer, or default_query_exec_mode=exec in the URL; and "+
				"TIDEMARK_LISTEN=false. See docs/guides/operations/pgbouncer.md")
	}
	if mode := pool.Config().ConnConfig.DefaultQueryExecMode; mode == pgx.QueryExecModeExec ||
		mode == pgx.QueryExecModeSimpleProtocol {
		formats, err := texts(ctx, pool, queryFormats)
		if err != nil {
			return warn(fmt.Sprintf("there is one; could not look at its sessions: %v", err), "look again")
		}
		if len(formats) > 0 {
			return warn("there is one, and its sessions have "+strings.Join(formats, ", ")+
				": values come as text in this default_query_exec_mode",
				"ALTER DATABASE … RESET and ALTER ROLE … RESET these settings, or leave out default_query_exec_mode")
		}
	}
	return Finding{
		Status: OK,
		Detail: "there is one; prepared statements get through it, or are not used. In transaction mode it does " +
			"not pass on NOTIFY: set TIDEMARK_LISTEN=false",
	}
}

// unfitError is a setting of sessions under which statements cannot be sent as text.
type unfitError struct{ setting, value, needed string }

func (e *unfitError) Error() string {
	return fmt.Sprintf("could not look: sessions have %s=%s, not %s", e.setting, e.value, e.needed)
}

func (e *unfitError) remedy() string {
	return fmt.Sprintf("ALTER ROLE … SET %[1]s = '%[2]s', or add %[1]s=%[2]s to the URL; a pooler in between must pass "+
		"it on", e.setting, e.needed)
}

// fit returns an [*unfitError] if the connection cannot send statements as text.
func fit(conn *pgx.Conn) error {
	for _, e := range []unfitError{
		{setting: "standard_conforming_strings", needed: "on"}, {setting: "client_encoding", needed: "UTF8"},
	} {
		if e.value = conn.PgConn().ParameterStatus(e.setting); e.value != e.needed {
			return &e
		}
	}
	return nil
}

// preparedThrough prepares a statement on one connection and then runs it. In between a second
// connection opens a transaction, which occupies the first one's session if they share sessions.
func preparedThrough(ctx context.Context, pool *pgxpool.Pool) (between, works bool, err error) {
	first, err := pool.Acquire(ctx)
	if err != nil {
		return false, false, err
	}
	defer first.Release()
	if err := fit(first.Conn()); err != nil {
		return false, false, err
	}
	var backend uint32
	if err := first.QueryRow(ctx, queryBackend, pgx.QueryExecModeSimpleProtocol).Scan(&backend); err != nil {
		return false, false, err
	}
	if backend == first.Conn().PgConn().PID() {
		return false, true, nil
	}
	if pool.Config().ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement { // other modes name no statements
		return true, true, nil
	}
	const name = "tidemark_doctor"
	wire := first.Conn().PgConn()
	if _, err := wire.Prepare(ctx, name, queryBackend, nil); err != nil {
		return true, false, nil
	}
	second, err := pool.Acquire(ctx)
	if err != nil {
		return true, false, err
	}
	defer second.Release()
	if _, err := second.Exec(ctx, "BEGIN", pgx.QueryExecModeSimpleProtocol); err != nil {
		return true, false, err
	}
	defer func() { _, _ = second.Exec(context.WithoutCancel(ctx), "ROLLBACK", pgx.QueryExecModeSimpleProtocol) }()
	if _, err = wire.ExecPrepared(ctx, name, nil, nil, nil).Close(); redact.SQLState(err) != "" {
		return true, false, nil
	}
	return true, err == nil, err
}

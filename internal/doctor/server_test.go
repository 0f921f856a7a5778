package doctor_test

import (
	"bytes"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// pretend returns the address of a proxy that replaces some text of the server with other text of
// the same length.
func pretend(t *testing.T, pool *pgxpool.Pool, says, instead string) string {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := pool.Config().ConnConfig
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	copied := func(to, from net.Conn, change func([]byte) []byte) {
		defer func() { _, _ = to.Close(), from.Close() }()
		buffer := make([]byte, 1<<16) // larger than any response here
		for {
			n, err := from.Read(buffer)
			if _, failed := to.Write(change(buffer[:n])); err != nil || failed != nil {
				return
			}
		}
	}
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			var dialer net.Dialer
			server, err := dialer.DialContext(t.Context(), "tcp4", net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))))
			if err != nil {
				_ = client.Close()
				return
			}
			all.Go(func() { copied(server, client, func(b []byte) []byte { return b }) })
			all.Go(func() {
				copied(client, server, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(says), []byte(instead)) })
			})
		}
	})
	return "postgres://" + config.User + "@" + listener.Addr().String() + "/" + config.Database + "?sslmode=disable"
}

// Other databases speak Postgres' protocol too, but their sequences, snapshots and advisory locks
// differ.
func TestServersThatAreNotPostgresAreRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var version string
	if err := pool.QueryRow(t.Context(), "SELECT version()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{
		"CockroachDB CCL v23.1", "PostgreSQL 11.2-YB-2.20.1.3-b0 on",
		"PostgreSQL 8.0.2 on i686, Redshift 1.0", version,
	} {
		is := says + strings.Repeat(" ", max(0, len(version)-len(says)))
		other := open(t, pretend(t, pool, version, is))
		findings, err := doctor.Run(t.Context(), other, doctor.Options{})
		other.Close() // the proxy waits for its connections, so close them first
		if err != nil {
			t.Fatal(err)
		}
		f := byCheck(t, findings)["connection"]
		if refused := f.Status == doctor.Fail && strings.Contains(f.Detail, says); refused == (says == version) {
			t.Errorf("%s: %+v", says, f)
		}
		if says != version && len(findings) != 2 {
			t.Errorf("%s: there are %d findings, though queries mean something else there", says, len(findings))
		}
	}
}

// Each server has its own advisory locks, so appends to distributed tables do not wait for each
// other.
func TestTablesThatAnExtensionHasDistributedAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ catalogue, entry, want string }{
		"Citus": {
			`SET allow_system_table_mods = on; CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass,
				partmethod "char"); RESET allow_system_table_mods`,
			`INSERT INTO pg_dist_partition VALUES ('tidemark.journal', 'h'), ('tidemark.outbox', 'n')`,
			"Citus has journal, outbox",
		},
		"Timescale": {
			`CREATE SCHEMA _timescaledb_catalog; CREATE TABLE _timescaledb_catalog.hypertable (schema_name name,
				table_name name)`,
			`INSERT INTO _timescaledb_catalog.hypertable VALUES ('tidemark', 'failure_log'), ('public', 'journal')`,
			"Timescale has failure_log",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			for i, sql := range []string{c.catalogue, c.entry} {
				if _, err := pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
					t.Fatal(err)
				}
				findings, err := doctor.Run(t.Context(), pool, doctor.Options{})
				if err != nil {
					t.Fatal(err)
				}
				f := byCheck(t, findings)["extensions"]
				if refused := f.Status == doctor.Fail && strings.HasPrefix(f.Detail, c.want); refused != (i == 1) {
					t.Errorf("after %s: %+v", sql, f)
				}
			}
		})
	}
}

func TestASequenceThatHandsPositionsOutTwiceIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ change, detail, remedy string }{
		"as it is": {`SELECT`, "CACHE 1", ""},
		"another minimum": {`ALTER SEQUENCE tidemark.journal_position MINVALUE 1 START
			1`, "MINVALUE 1", "MINVALUE 0"},
		"behind the journal": {`SELECT setval('tidemark.journal_position',
			1)`, "stands at 1, and an event of the journal has 2", "copy repair"},
		"begun anew": {`ALTER SEQUENCE tidemark.journal_position
			RESTART`, "stands at 0, and an event of the journal has 2", "copy repair"},
		"values kept by a session": {`ALTER SEQUENCE tidemark.journal_position CACHE 5`, "CACHE 5", "CACHE 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := journal.Journal{}.Append(t.Context(), tx, "c", journal.Any, event.Event{Type: "noted"},
					event.Event{Type: "noted"})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if _, err := pool.Exec(t.Context(), c.change); err != nil {
				t.Fatal(err)
			}
			findings, err := doctor.Run(t.Context(), pool, doctor.Options{})
			if err != nil {
				t.Fatal(err)
			}
			f := byCheck(t, findings)["sequence"]
			if (f.Status == doctor.Fail) != (c.remedy != "") || !strings.Contains(f.Detail, c.detail) ||
				!strings.Contains(f.Remedy, c.remedy) {
				t.Errorf("%+v", f)
			}
		})
	}
}

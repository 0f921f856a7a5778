package pgbouncer_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/freeport"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// serverConnections is less than the clients' connections, so they must share.
const serverConnections = 6

const configFile = `[databases]
bounced = %s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 200
`

// readableTexts gives a pool's database formats that pgx reads as text. PgBouncer refuses these
// parameters, so an address cannot have them.
const readableTexts = `DO $$ BEGIN
	EXECUTE format('ALTER DATABASE %I SET IntervalStyle = postgres', current_database());
	EXECUTE format('ALTER DATABASE %I SET bytea_output = hex', current_database());
	EXECUTE format('ALTER DATABASE %I SET extra_float_digits = 1', current_database());
END $$`

// startBouncer starts a PgBouncer in front of the pool's database and returns its address. It stops
// at the end of the test. Database and address have what the modes need that get results as text
// (docs/guides/operations/pgbouncer.md).
func startBouncer(t *testing.T, pool *pgxpool.Pool, execMode string) string {
	t.Helper()
	parameters := url.Values{"sslmode": {"disable"}, "default_query_exec_mode": {execMode}}
	switch execMode {
	case "simple_protocol":
		parameters.Set("standard_conforming_strings", "on")
		fallthrough
	case "exec":
		tally.Exec(t, pool, readableTexts)
		parameters.Set("datestyle", "ISO")
	}
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // Debian's path, which is often not in PATH
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("this test needs PgBouncer: run `make testtools`, or install Debian's package pgbouncer (%v)", err)
	}
	port, err := freeport.TCP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(readable(t), "pgbouncer.ini")
	config := fmt.Sprintf(configFile, connection(pool.Config().ConnConfig), port, serverConnections)
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, program, file)
	var output bytes.Buffer
	cmd.Stderr = &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: unprivileged(t)}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("PgBouncer:\n%s", output.String())
		}
	})
	address := url.URL{
		Scheme: "postgres", User: url.User("anybody"), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Path:     "/bounced",
		RawQuery: parameters.Encode(),
	}
	tally.Eventually(t, "PgBouncer answers", func(ctx context.Context) (bool, error) {
		conn, err := pgx.Connect(ctx, address.String())
		if err != nil {
			return false, err
		}
		return true, conn.Close(ctx)
	})
	return address.String()
}

// readable returns a temporary folder that PgBouncer's user can read.
func readable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// connection returns PgBouncer's connection string for the server.
func connection(server *pgx.ConnConfig) string {
	quote := func(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }
	text := fmt.Sprintf("host=%s port=%d dbname=%s user=%s", quote(server.Host), server.Port, quote(server.Database),
		quote(server.User))
	if server.Password != "" {
		text += " password=" + quote(server.Password)
	}
	return text
}

// unprivileged returns the user for PgBouncer, which refuses to run as root; nil: the current user.
func unprivileged(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.ParseUint(nobody.Gid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

package devpg_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
)

// holdEnv turns the test binary into a process that opens the server of that folder and prints its
// URL. The process closes the server when its input ends. With the value "private" the folder is
// temporary.
const holdEnv = "TIDEMARK_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		if err := hold(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leaktest.Main(m)
}

func hold(dir string) error {
	cfg := quick(dir)
	if dir == "private" {
		cfg.Dir, cfg.Private = "", true
	}
	server, err := devpg.Open(context.Background(), cfg)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(os.Stdout, server.URL()); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return server.Close()
}

// quick returns a configuration whose cluster is fast to create and start.
func quick(dir string) devpg.Config {
	return devpg.Config{
		Dir:      dir,
		Settings: map[string]string{"fsync": "off", "shared_buffers": "16MB", "max_connections": "20"},
	}
}

// patience bounds every wait, also for several processes that create clusters one after the other.
const patience = 5 * time.Minute

// holder is another process that uses a server.
type holder struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
}

func startHolder(t *testing.T, dir string) *holder {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
		cancel()
	})
	return &holder{cmd: cmd, stdin: stdin, stdout: bufio.NewReader(stdout)}
}

// url waits until the process has opened the server.
func (h *holder) url(t *testing.T) string {
	t.Helper()
	line, err := h.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("the other process did not open the server: %v", err)
	}
	return strings.TrimSpace(line)
}

// kill kills the process with SIGKILL.
func (h *holder) kill(t *testing.T) {
	t.Helper()
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait()
}

// leave lets the process close the server and waits until it exits.
func (h *holder) leave(t *testing.T) {
	t.Helper()
	_ = h.stdin.Close()
	if err := h.cmd.Wait(); err != nil {
		t.Fatalf("the other process did not close the server: %v", err)
	}
}

func open(t *testing.T, cfg devpg.Config) *devpg.Server {
	t.Helper()
	server, err := devpg.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, server) })
	return server
}

func closeServer(t *testing.T, server *devpg.Server) {
	t.Helper()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}

// query returns the single value of a query.
func query(t *testing.T, url, sql string) string {
	t.Helper()
	value, err := tryQuery(t, url, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func tryQuery(t *testing.T, url, sql string) (value string, err error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(t.Context()) }()
	err = conn.QueryRow(t.Context(), sql).Scan(&value)
	return value, err
}

func gone(t *testing.T, url string) bool {
	t.Helper()
	_, err := tryQuery(t, url, "SELECT 'there'")
	return err != nil
}

// stateFolder returns a folder for a cluster and removes the cluster when the test ends.
func stateFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { removeCluster(t, dir) })
	return dir
}

package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	host = "127.0.0.1"
	// Database is the name of the database that [Open] creates.
	Database  = "tidemark"
	superuser = "postgres"
	// dialTimeout is the timeout of one attempt to connect; a loopback server answers at once.
	dialTimeout = 2 * time.Second
	// writingTime is how long a pid file without a number counts as being written. After a crash it
	// stays without a number.
	writingTime = time.Second
)

func databaseURL(port int, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(superuser), Host: net.JoinHostPort(host, strconv.Itoa(port)), Path: "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// postmaster is the server process of a cluster, read from its pid file. Missing values are zero.
type postmaster struct {
	pid  int
	port int
	data string
}

// findPostmaster returns the process that runs the cluster, or nil. The pid file alone proves
// nothing: after a crash its pid may belong to another program. Postgres would take that program for
// itself and refuse to start, so the file is removed. Postgres also refuses a file without a number,
// which is removed too.
func findPostmaster(ctx context.Context, data string) (*postmaster, error) {
	path := filepath.Join(data, "postmaster.pid")
	info, err := os.Stat(path)
	var content []byte
	if err == nil {
		content, err = os.ReadFile(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the server's pid file: %w", err)
	}
	p := &postmaster{data: data}
	lines := strings.Split(string(content), "\n") // pid, data folder, start time, port, …
	p.pid, _ = strconv.Atoi(strings.TrimSpace(lines[0]))
	p.pid = max(p.pid, -p.pid) // a single-user backend writes its pid negated
	if len(lines) > 3 {
		p.port, _ = strconv.Atoi(strings.TrimSpace(lines[3]))
	}
	switch {
	case p.pid == 0 && time.Since(info.ModTime()) < writingTime:
		return p, nil
	case p.pid != 0 && !exists(p.pid):
		// The file is kept because Postgres uses it to find backends that outlived their postmaster.
		return nil, nil
	case p.pid != 0 && (p.alive(ctx) || p.answers(ctx) == nil):
		return p, nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove a stale pid file, whose process %d is not the server: %w", p.pid, err)
	}
	return nil, nil
}

func exists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// alive reports whether the process is still that server, not a zombie or another program.
func (p *postmaster) alive(ctx context.Context) bool {
	if runtime.GOOS != "linux" {
		command, _ := exec.CommandContext(ctx, "ps", "-ww", "-o", "command=", "-p", strconv.Itoa(p.pid)).Output()
		return strings.HasSuffix(strings.TrimSpace(string(command)), "postgres -D "+p.data)
	}
	command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid)) // empty for a zombie
	program, args, _ := strings.Cut(string(command), "\x00")
	return filepath.Base(program) == "postgres" && slices.Contains(strings.Split(args, "\x00"), p.data)
}

// answers connects and checks that this cluster answers. Another server may have taken the port.
func (p *postmaster) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, databaseURL(p.port, superuser))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var data string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&data); err != nil {
		return err
	}
	if data != p.data {
		return fmt.Errorf("port %d belongs to the server of %s", p.port, data)
	}
	return nil
}

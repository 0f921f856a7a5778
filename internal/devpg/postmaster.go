package devpg

import (
	"bytes"
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
	// dialTimeout bounds one attempt to connect; a loopback server that is up answers at once.
	dialTimeout = 2 * time.Second
)

func databaseURL(port int, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(superuser), Host: net.JoinHostPort(host, strconv.Itoa(port)), Path: "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// postmaster is the server process of one cluster, as its postmaster.pid tells it.
type postmaster struct {
	pid  int
	port int
	data string
}

// findPostmaster answers the process that runs the cluster, or nil. The pid file alone proves nothing: after a crash its number may
// belong to another program. Such a file is removed, because Postgres would take that program for itself and refuse to start.
func findPostmaster(ctx context.Context, data string) (*postmaster, error) {
	path := filepath.Join(data, "postmaster.pid")
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the server's pid file: %w", err)
	}
	p := &postmaster{data: data}
	lines := strings.Split(string(content), "\n") // pid, data folder, start time, port, …
	p.pid, _ = strconv.Atoi(strings.TrimSpace(lines[0]))
	if p.pid < 0 { // a single-user backend writes its pid negated
		p.pid = -p.pid
	}
	if len(lines) > 3 {
		p.port, _ = strconv.Atoi(strings.TrimSpace(lines[3]))
	}
	switch {
	case p.pid == 0 || !exists(p.pid):
		// Left for Postgres to judge: through it, it also sees backends that outlived their postmaster.
		return nil, nil
	case p.alive(ctx) || p.answers(ctx) == nil:
		return p, nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the stale pid file, whose process %d is another program: %w", p.pid, err)
	}
	return nil, nil
}

func exists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// alive tells whether the process is still that server and not a zombie or another program with the same number.
func (p *postmaster) alive(ctx context.Context) bool {
	if !exists(p.pid) {
		return false
	}
	var command []byte
	if runtime.GOOS == "linux" {
		command, _ = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid)) // empty for a zombie
		command = bytes.ReplaceAll(command, []byte{0}, []byte{' '})
	} else {
		command, _ = exec.CommandContext(ctx, "ps", "-ww", "-o", "command=", "-p", strconv.Itoa(p.pid)).Output()
	}
	return bytes.Contains(command, []byte("postgres")) && bytes.Contains(command, []byte(p.data))
}

// answers connects and checks that this very cluster answers; another server may have taken the port.
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

// ready waits until the server answers: it may still be starting or recovering. It ends early when the process does.
func (p *postmaster) ready(ctx context.Context) error {
	var last error
	err := poll(ctx, func() (bool, error) {
		if !p.alive(ctx) {
			return false, errDied
		}
		last = p.answers(ctx)
		return last == nil, nil
	})
	if err != nil && !errors.Is(err, errDied) {
		return errors.Join(err, last)
	}
	return err
}

// errDied says that the server ended by itself.
var errDied = errors.New("the server ended while starting")

// signals are the ways to end a server, each with the time it gets before the next one follows.
type signals []struct {
	signal syscall.Signal
	within time.Duration
}

// stop ends the server and waits until it is gone.
func (p *postmaster) stop(ctx context.Context, how signals) error {
	for _, step := range how {
		if err := syscall.Kill(p.pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop the server, process %d: %w", p.pid, err)
		}
		waiting, cancel := context.WithTimeout(ctx, step.within)
		err := poll(waiting, func() (bool, error) { return !p.alive(waiting), nil })
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("stop the server: process %d is still there", p.pid)
}

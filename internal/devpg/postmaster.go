package devpg

import (
	"context"
	"errors"
	"fmt"
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

// postmaster is the server process of one cluster.
type postmaster struct {
	pid      int
	port     int
	data     string
	launched bool // by this process
}

// alive tells whether the process is still that server and not a zombie or another program with the same number.
func (p *postmaster) alive(ctx context.Context) bool {
	reap(p.pid)
	if !exists(p.pid) {
		return false
	}
	if runtime.GOOS != "linux" {
		command, _ := exec.CommandContext(ctx, "ps", "-ww", "-o", "command=", "-p", strconv.Itoa(p.pid)).Output()
		return strings.HasSuffix(strings.TrimSpace(string(command)), "postgres -D "+p.data)
	}
	command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	if len(command) == 0 { // another's zombie, or a process of ours in the moment when it begins
		return p.launched
	}
	program, args, _ := strings.Cut(string(command), "\x00")
	return filepath.Base(program) == "postgres" && slices.Contains(strings.Split(args, "\x00"), p.data)
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

const (
	fastWithin      = 30 * time.Second
	immediateWithin = 10 * time.Second
)

// stop ends the server and waits until it is gone. A fast stop that takes too long becomes an immediate one.
func (p *postmaster) stop(ctx context.Context, mode Mode) error {
	type step struct {
		signal syscall.Signal
		within time.Duration
	}
	steps := []step{{syscall.SIGINT, fastWithin}, {syscall.SIGQUIT, immediateWithin}}
	if mode == Immediate {
		steps = steps[1:]
	}
	for _, step := range steps {
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

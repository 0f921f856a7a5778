package devpg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// startTimeout leaves room for crash recovery of max_wal_size.
	startTimeout = 2 * time.Minute
	// maxLogSize is where a start begins the server's log anew.
	maxLogSize = 16 << 20
	// startAttempts is how often another port, or the end of an earlier server's backends, is waited for.
	startAttempts = 10
)

// start runs the cluster and waits until it answers. port is tried first; 0 means any.
func (s *Server) start(ctx context.Context, c cluster, port int) (*postmaster, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		p, err := s.startOnce(ctx, c, port)
		if err == nil {
			return p, nil
		}
		if attempt == startAttempts || !errors.Is(err, errDied) || ctx.Err() != nil {
			return nil, err
		}
		// Either somebody took the port between our look and the server's, or backends of a killed server still hold its memory
		// and are about to notice.
		s.log.WarnContext(ctx, "the server did not start, trying again", "attempt", attempt, "error", err)
		again, cancelWait := context.WithTimeout(ctx, time.Duration(attempt)*pollInterval)
		<-again.Done()
		cancelWait()
	}
}

func (s *Server) startOnce(ctx context.Context, c cluster, port int) (*postmaster, error) {
	port, err := freePort(ctx, port)
	if err != nil {
		return nil, err
	}
	if err := c.writeSettings(s.cfg.settings(port)); err != nil {
		return nil, err
	}
	out, began, err := s.openLog()
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	defer func() { _ = null.Close() }()

	// A session of its own: a Ctrl-C in the terminal ends the commands, and they end the server.
	process, err := os.StartProcess(c.bin.postgres(), []string{c.bin.postgres(), "-D", c.data}, &os.ProcAttr{
		Dir:   c.data,
		Env:   environment(),
		Files: []*os.File{null, out, out},
		Sys:   &syscall.SysProcAttr{Credential: c.as, Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	p := &postmaster{pid: process.Pid, port: port, data: c.data}
	err = p.ready(ctx)
	if errors.Is(err, errDied) {
		_, _ = process.Wait()
		return nil, fmt.Errorf("start the server: %w: %s", err, s.logSince(began))
	}
	// Nobody waits for the process: it may outlive this one. Its end is seen by its pid, for which a zombie counts as gone.
	_ = process.Release()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the server: %w", err), p.stop(context.WithoutCancel(ctx), immediately))
	}
	if err := os.WriteFile(filepath.Join(s.dir, portName), []byte(strconv.Itoa(port)+"\n"), 0o644); err != nil {
		return nil, errors.Join(fmt.Errorf("note the server's port: %w", err), p.stop(context.WithoutCancel(ctx), immediately))
	}
	return p, nil
}

const portName = "port"

// lastPort answers the port of the last start, or 0.
func (s *Server) lastPort() int {
	text, _ := os.ReadFile(filepath.Join(s.dir, portName)) // no file: no earlier start
	port, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return port
}

// freePort answers the port asked for when nobody listens on it, or one that the system picks.
func freePort(ctx context.Context, wanted int) (int, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp4", net.JoinHostPort(host, strconv.Itoa(wanted)))
	if err != nil && wanted != 0 {
		listener, err = listen.Listen(ctx, "tcp4", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	addr, ok := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil || !ok {
		return 0, fmt.Errorf("find a free port: %v: %w", listener.Addr(), err)
	}
	return addr.Port, nil
}

// environment is this process's without what would steer the server or its messages.
func environment() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PG") && !strings.HasPrefix(entry, "LC_") && !strings.HasPrefix(entry, "LANG") {
			env = append(env, entry)
		}
	}
	return append(env, "LC_ALL=C")
}

const logName = "postgres.log"

// openLog answers the server's log and its present size.
func (s *Server) openLog() (*os.File, int64, error) {
	path := filepath.Join(s.dir, logName)
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, 0, fmt.Errorf("open the server's log: %w", err)
	}
	info, err := out.Stat()
	size := int64(0)
	if err == nil {
		size = info.Size()
		if size > maxLogSize {
			size = 0
			err = out.Truncate(0)
		}
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open the server's log: %w", err), out.Close())
	}
	return out, size, nil
}

// logSince answers what the server said since the log had that size.
func (s *Server) logSince(began int64) string {
	path := filepath.Join(s.dir, logName)
	text, err := os.ReadFile(path)
	if err != nil || int64(len(text)) <= began {
		return "see " + path
	}
	return strings.TrimSpace(string(text[began:]))
}

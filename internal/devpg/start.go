package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-go/tidemark/internal/freeport"
)

const (
	// startTimeout leaves room for crash recovery of max_wal_size.
	startTimeout = 2 * time.Minute
	// startAttempts and startPause leave about five seconds for what ends by itself; see connectOrStart.
	startAttempts = 10
	startPause    = 100 * time.Millisecond
)

// connectOrStart answers a server that takes connections. The caller holds the lock.
func (s *Server) connectOrStart(ctx context.Context) (*postmaster, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		p, err := s.connectOrStartOnce(ctx)
		if err == nil {
			return p, nil
		}
		if attempt == startAttempts || !errors.Is(err, errDied) || ctx.Err() != nil {
			return nil, err
		}
		// A server that ended may have been on its way out when we found it, have lost its port to a
		// stranger, have met one that an earlier, killed process had just launched, or have met backends
		// that outlived their postmaster and are about to notice.
		s.log.WarnContext(ctx, "the server did not start, trying again", "attempt", attempt, "error", err)
		pause, done := context.WithTimeout(ctx, time.Duration(attempt)*startPause)
		<-pause.Done()
		done()
	}
}

func (s *Server) connectOrStartOnce(ctx context.Context) (*postmaster, error) {
	running, err := s.running(ctx)
	if err != nil {
		return nil, err
	}
	if running != nil {
		if err := running.ready(ctx); err != nil {
			return nil, fmt.Errorf("wait for the running server, process %d: %w", running.pid, err)
		}
		return running, nil
	}
	c, err := openCluster(ctx, s.dir, s.cfg, s.log)
	if err != nil {
		return nil, err
	}
	started, err := s.start(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	s.log.InfoContext(ctx, "Postgres started", "data", started.data, "port", started.port, "pid", started.pid)
	return started, nil
}

// running answers the cluster's server, or nil when there is none.
func (s *Server) running(ctx context.Context) (*postmaster, error) {
	data, err := filepath.EvalSymlinks(filepath.Join(s.dir, clusterName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the cluster: %w", err)
	}
	return findPostmaster(ctx, data)
}

// start launches the server, on the port of the last time if it is free, and waits until it answers.
func (s *Server) start(ctx context.Context, c cluster) (*postmaster, error) {
	port, err := freePort(ctx, s.lastPort())
	if err != nil {
		return nil, err
	}
	if err := c.writeSettings(s.cfg.settings(port)); err != nil {
		return nil, err
	}
	out, err := os.Create(s.logPath())
	if err != nil {
		return nil, fmt.Errorf("begin the server's log: %w", err)
	}
	defer func() { _ = out.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
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
		return nil, err
	}
	p := &postmaster{pid: process.Pid, port: port, data: c.data, launched: true}
	err = p.ready(ctx)
	if errors.Is(err, errDied) {
		said, _ := s.Log() // without it there is less to say
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(said))
	}
	// The process may outlive this one, so this one does not wait for it. Its end is seen by its pid, for which a
	// zombie counts as gone.
	_ = process.Release()
	if err != nil {
		return nil, errors.Join(err, p.stop(context.WithoutCancel(ctx), Immediate))
	}
	if err := os.WriteFile(filepath.Join(s.dir, portName), []byte(strconv.Itoa(port)+"\n"), 0o644); err != nil {
		return nil, errors.Join(err, p.stop(context.WithoutCancel(ctx), Immediate))
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

// freePort answers the port asked for when it has no listener, or another one.
func freePort(ctx context.Context, wanted int) (int, error) {
	if wanted == 0 {
		return freeport.TCP(ctx)
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp4", net.JoinHostPort(host, strconv.Itoa(wanted)))
	if err != nil {
		return freeport.TCP(ctx)
	}
	return wanted, listener.Close()
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

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
	"time"

	"github.com/tidemark-go/tidemark/internal/freeport"
)

const (
	// startTimeout leaves room for crash recovery of max_wal_size.
	startTimeout = 2 * time.Minute
	// startPatience and startAttempts, both used up, are for what ends by itself; see connectOrStart.
	startPatience = 5 * time.Second
	startAttempts = 10

	fastWithin      = 30 * time.Second
	immediateWithin = 10 * time.Second
)

// connectOrStart answers a server that takes connections. The caller holds the lock.
//
// A server that does not start may have lost its port to a stranger, have met one that an earlier,
// killed process had just launched, or backends that outlived their postmaster and are about to notice.
// So it is started again a few times.
func (s *Server) connectOrStart(ctx context.Context) (found *postmaster, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	begun, attempts := time.Now(), 0
	var unready error
	err = poll(ctx, func() (bool, error) {
		if found, err = s.running(ctx); err != nil {
			return false, err
		}
		if found != nil { // perhaps it is still starting or recovering
			unready = found.answers(ctx)
			return unready == nil, nil
		}
		c, err := openCluster(ctx, s.dir, s.cfg, s.log)
		if err != nil {
			return false, err
		}
		attempts++
		unready = s.start(ctx, c)
		if unready != nil && attempts >= startAttempts && time.Since(begun) > startPatience {
			return false, fmt.Errorf("start the server: %w", unready)
		}
		return false, nil
	})
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, unready)
	}
	return found, err
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

// start launches the server, on the port of the last time if it is free, and waits until it is ready.
func (s *Server) start(ctx context.Context, c cluster) error {
	port, err := s.freePort(ctx)
	if err != nil {
		return err
	}
	if err := c.writeSettings(s.cfg.settings(port)); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.dir, logName))
	if err != nil {
		return fmt.Errorf("begin the server's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	if err := c.control(ctx, log, "start", startTimeout); err != nil {
		said, _ := s.Log() // without it there is less to say
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(said))
		if ctx.Err() != nil { // it may be starting yet
			err = errors.Join(err, s.stop(context.WithoutCancel(ctx), Immediate))
		}
		return err
	}
	s.log.InfoContext(ctx, "Postgres started", "data", c.data, "port", port)
	return os.WriteFile(filepath.Join(s.dir, portName), []byte(strconv.Itoa(port)+"\n"), 0o644)
}

// stop ends the server and waits until it is gone. A fast stop that takes too long becomes an immediate one.
func (s *Server) stop(ctx context.Context, mode Mode) error {
	running, err := s.running(ctx)
	if err != nil || running == nil {
		return err
	}
	c, err := openCluster(ctx, s.dir, s.cfg, s.log)
	if err != nil {
		return err
	}
	if mode == Fast {
		err = c.control(ctx, nil, "stop", fastWithin, "-m", string(Fast))
	}
	if mode == Immediate || err != nil && ctx.Err() == nil {
		err = c.control(ctx, nil, "stop", immediateWithin, "-m", string(Immediate))
	}
	if err != nil {
		return fmt.Errorf("stop the server, process %d: %w", running.pid, err)
	}
	s.log.InfoContext(ctx, "Postgres stopped", "data", c.data, "mode", mode)
	return nil
}

// freePort answers the port of the last start when it has no listener, or another one.
func (s *Server) freePort(ctx context.Context) (int, error) {
	text, _ := os.ReadFile(filepath.Join(s.dir, portName)) // no file: no earlier start
	last, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if last == 0 {
		return freeport.TCP(ctx)
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp4", net.JoinHostPort(host, strconv.Itoa(last)))
	if err != nil {
		return freeport.TCP(ctx)
	}
	return last, listener.Close()
}

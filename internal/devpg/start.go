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
	// connectOrStart gives up only after both startPatience and startAttempts.
	startPatience = 5 * time.Second
	startAttempts = 10

	fastWithin      = 30 * time.Second
	immediateWithin = 10 * time.Second
)

// connectOrStart returns a server that accepts connections. The caller holds the lock.
//
// A start may fail because another program took the port, because a killed process had just started
// the same server, or because backends outlived their postmaster and have not noticed yet. So it
// tries several times.
func (s *Server) connectOrStart(ctx context.Context) (found *postmaster, err error) {
	search := search{getenv: os.Getenv, installed: installed()}
	if err := search.provide(ctx, s.cfg.Install, s.log); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	begun, attempts := time.Now(), 0
	var unready error
	err = poll(ctx, func() (bool, error) {
		if found, err = s.running(ctx); err != nil {
			return false, err
		}
		if found != nil { // it may still be starting or recovering
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

// running returns the cluster's server, or nil if there is none.
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

// start starts the server, on its last port if that is free, and waits until it is ready.
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
		said, _ := s.Log() // only for the message
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(said))
		if ctx.Err() != nil { // it may still be starting
			err = errors.Join(err, s.stop(context.WithoutCancel(ctx), Immediate))
		}
		return err
	}
	s.log.InfoContext(ctx, "Postgres started", "data", c.data, "port", port)
	return os.WriteFile(filepath.Join(s.dir, portName), []byte(strconv.Itoa(port)+"\n"), 0o644)
}

// stop stops the server and waits until it has ended. A fast stop that takes too long becomes an
// immediate one.
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

// freePort returns the port of the last start if it has no listener, else another one.
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

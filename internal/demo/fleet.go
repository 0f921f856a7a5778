package demo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// fleet is the worker processes.
type fleet struct {
	binary  string
	folder  string // of their logs
	args    []string
	env     []string
	workers []*worker
}

func newFleet(binary, folder, databaseURL string, leaseTTL time.Duration) *fleet {
	return &fleet{
		binary: binary,
		folder: folder,
		args:   []string{"demo", "worker", "--lease-ttl", leaseTTL.String(), "--http-addr", "off"},
		env:    append(os.Environ(), "TIDEMARK_DATABASE_URL="+databaseURL),
	}
}

// add starts one more worker, with a log of its own.
func (f *fleet) add() error {
	number := len(f.workers) + 1
	log, err := os.Create(filepath.Join(f.folder, fmt.Sprintf("worker-%d.log", number)))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the worker has its own descriptor
	command := exec.Command(f.binary, f.args...)
	command.Env, command.Stdout, command.Stderr = f.env, log, log
	w, err := startWorker(number, command, log.Name())
	if err != nil {
		return fmt.Errorf("start worker %d: %w", number, err)
	}
	f.workers = append(f.workers, w)
	return nil
}

// check fails if a worker has ended by itself.
func (f *fleet) check() error {
	for _, w := range f.workers {
		if w.state() == ended {
			return fmt.Errorf("worker %d has ended by itself: %w%s", w.number, w.err, f.logs())
		}
	}
	return nil
}

// stop ends all workers, first kindly, and waits until they are gone. An error says which ones did not end well.
func (f *fleet) stop() error {
	var errs []error
	for _, w := range f.workers {
		w.terminate()
	}
	deadline := time.NewTimer(stopWithin)
	defer deadline.Stop()
	for _, w := range f.workers {
		errs = append(errs, w.wait(deadline.C))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w%s", err, f.logs())
	}
	return nil
}

// logs is the end of each worker's log, to put after an error.
func (f *fleet) logs() string {
	const lines = 15
	var all strings.Builder
	for _, w := range f.workers {
		raw, err := os.ReadFile(w.log)
		if err != nil || len(raw) == 0 {
			continue
		}
		last := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
		last = last[max(0, len(last)-lines):]
		fmt.Fprintf(&all, "\nworker %d:\n  %s", w.number, strings.Join(last, "\n  "))
	}
	return all.String()
}

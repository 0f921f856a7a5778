package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// buildWorker compiles the worker into a folder of its own and answers its path and how to remove it.
func buildWorker(ctx context.Context) (binary string, remove func() error, err error) {
	folder, err := os.MkdirTemp("", "tidemark-demo-")
	if err != nil {
		return "", nil, err
	}
	remove = func() error { return os.RemoveAll(folder) }
	binary = filepath.Join(folder, "worker")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", binary, "github.com/tidemark-go/tidemark/examples/tabletop/cmd/worker")
	if output, err := build.CombinedOutput(); err != nil {
		return "", nil, errors.Join(fmt.Errorf("build the worker: %w\n%s", err, output), remove())
	}
	return binary, remove, nil
}

// fleet is the worker processes.
type fleet struct {
	binary  string
	args    []string
	env     []string
	workers []*worker
}

func newFleet(binary, databaseURL string, leaseTTL time.Duration) *fleet {
	return &fleet{
		binary: binary,
		args:   []string{"--lease-ttl", leaseTTL.String(), "--http-addr", "off"},
		env:    append(os.Environ(), "TIDEMARK_DATABASE_URL="+databaseURL),
	}
}

// add starts one more worker, with its log beside the binary.
func (f *fleet) add() error {
	number := len(f.workers) + 1
	log, err := os.Create(filepath.Join(filepath.Dir(f.binary), fmt.Sprintf("worker-%d.log", number)))
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

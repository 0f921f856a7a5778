package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const stopWithin = 15 * time.Second

type fleet struct {
	folder  string // of their logs
	workers []*worker
}

type worker struct {
	number  int // from 1
	process *os.Process
	log     string        // path
	state   string        // "running", "killed" or "stopped" (by the demo)
	done    chan struct{} // closed when the process has ended
	err     error         // of the process; read it after done
}

func (f *fleet) add(program, databaseURL string) error {
	number := len(f.workers) + 1
	log, err := os.Create(filepath.Join(f.folder, fmt.Sprintf("worker-%d.log", number)))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the worker has its own descriptor
	command := exec.Command(program, "demo", "worker", "--lease-ttl", leaseTTL.String(), "--http-addr", "off")
	command.Env = append(os.Environ(), "TIDEMARK_DATABASE_URL="+databaseURL)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches only the demo, which stops workers in order
	w, err := startWorker(number, command, log.Name())
	if err != nil {
		return fmt.Errorf("start worker %d: %w", number, err)
	}
	f.workers = append(f.workers, w)
	return nil
}

func startWorker(number int, command *exec.Cmd, log string) (*worker, error) {
	w := &worker{number: number, log: log, state: "running", done: make(chan struct{})}
	if err := command.Start(); err != nil {
		return nil, err
	}
	w.process = command.Process
	go func() {
		w.err = command.Wait()
		close(w.done)
	}()
	return w, nil
}

func (w *worker) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (w *worker) kill() error {
	if w.ended() {
		return fmt.Errorf("worker %d has ended: %w", w.number, w.err)
	}
	w.state = "killed"
	if err := w.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-w.done
	return nil
}

// check fails if a worker has ended by itself.
func (f *fleet) check() error {
	for _, w := range f.workers {
		if w.state == "running" && w.ended() {
			return fmt.Errorf("worker %d has ended by itself: %w%s", w.number, w.err, f.logs())
		}
	}
	return nil
}

// stop stops all workers with SIGTERM, kills those that are late, and waits until they have ended.
// The error names workers that did not end well.
func (f *fleet) stop(within time.Duration) error {
	for _, w := range f.workers {
		if w.state == "running" && !w.ended() {
			w.state = "stopped"
			_ = w.process.Signal(syscall.SIGTERM) // if it has ended already, w.err tells why
		}
	}
	late, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var errs []error
	for _, w := range f.workers {
		select {
		case <-w.done:
			if w.state == "stopped" && w.err != nil {
				errs = append(errs, fmt.Errorf("worker %d ended badly: %w", w.number, w.err))
			}
		case <-late.Done():
			errs = append(errs, fmt.Errorf("worker %d has not ended %s after SIGTERM", w.number, within), w.kill())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w%s", err, f.logs())
	}
	return nil
}

// logs returns the end of each worker's log, to append to an error.
func (f *fleet) logs() string {
	const bytes = 2000
	var all strings.Builder
	for _, w := range f.workers {
		log, err := os.ReadFile(w.log)
		if err == nil && len(log) > 0 {
			fmt.Fprintf(&all, "\nworker %d: …%s", w.number, log[max(0, len(log)-bytes):])
		}
	}
	return all.String()
}

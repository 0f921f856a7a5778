package demo

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// stopWithin is how long workers may take to finish after SIGTERM.
const stopWithin = 15 * time.Second

// state says how it is with a worker.
type state string

const (
	running state = "running"
	killed  state = "killed" // by us
	stopped state = "stopped"
	ended   state = "ended" // by itself
)

// worker is a worker process.
type worker struct {
	number int // from 1
	pid    int
	log    string // path

	asked atomic.Pointer[state] // what we did to it: killed or stopped; nil: nothing
	done  chan struct{}         // closed when it has ended
	err   error                 // how; to be read after done
}

// startWorker starts the process. It dies with this one: on Linux the kernel sees to it, as long as
// the thread that started it lives; so that thread waits for it and does nothing else.
func startWorker(number int, command *exec.Cmd, log string) (*worker, error) {
	command.SysProcAttr = processAttributes()
	w := &worker{number: number, log: log, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			w.err = command.Wait()
			close(w.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	w.pid = command.Process.Pid
	return w, nil
}

func (w *worker) state() state {
	if asked := w.asked.Load(); asked != nil {
		return *asked
	}
	select {
	case <-w.done:
		return ended
	default:
		return running
	}
}

func (w *worker) signal(signal syscall.Signal) error {
	select {
	case <-w.done:
		return fmt.Errorf("worker %d has ended: %w", w.number, w.err)
	default:
		return syscall.Kill(w.pid, signal)
	}
}

// kill ends it at once and waits until it is gone.
func (w *worker) kill() error {
	w.mark(killed)
	if err := w.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-w.done
	return nil
}

// terminate asks it to finish what it is doing and end.
func (w *worker) terminate() {
	if w.state() == running {
		w.mark(stopped)
		_ = w.signal(syscall.SIGTERM) // gone already: wait tells how
	}
}

// wait waits until it is gone, and kills it when time is up.
func (w *worker) wait(late <-chan time.Time) error {
	select {
	case <-w.done:
	case <-late:
		return errors.Join(fmt.Errorf("worker %d has not ended %s after SIGTERM", w.number, stopWithin), w.kill())
	}
	if w.state() == stopped && w.err != nil {
		return fmt.Errorf("worker %d ended badly: %w", w.number, w.err)
	}
	return nil
}

func (w *worker) mark(s state) { w.asked.Store(&s) }

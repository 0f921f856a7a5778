package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience limits the waits for a process.
const patience = 3 * time.Minute

// Process is a running worker.
type Process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	begun chan struct{} // closed when it handles SIGTERM
	said  chan string   // its further lines on stdout; closed when it ends
	ended chan struct{}
	log   *log
}

// Start starts a worker, which is killed at the end of the test.
func Start(t testing.TB, cfg Config) *Process {
	t.Helper()
	config, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &Process{
		cmd: exec.CommandContext(ctx, os.Args[0]), begun: make(chan struct{}), said: make(chan string, 2),
		ended: make(chan struct{}), log: &log{},
	}
	p.cmd.Env = append(os.Environ(), configEnv+"="+string(config))
	p.cmd.Stderr = p.log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		defer close(p.said)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if lines.Text() == begun {
				close(p.begun)
				continue
			}
			p.said <- lines.Text()
		}
		_ = p.cmd.Wait() // the process state tells how it ended
	}()
	t.Cleanup(func() {
		cancel()
		<-p.ended
		if t.Failed() {
			t.Logf("worker %s:\n%s", cfg.Name, p.log)
		}
	})
	return p
}

// Halts waits until the worker halts at its step.
func (p *Process) Halts(t testing.TB) {
	t.Helper()
	p.says(t, halting)
}

// Stops waits until the worker has received the request to stop.
func (p *Process) Stops(t testing.TB) {
	t.Helper()
	p.says(t, stopping)
}

func (p *Process) says(t testing.TB, want string) {
	t.Helper()
	select {
	case line, ok := <-p.said:
		if !ok {
			t.Fatalf("the worker ended (%v) before it said %q", p.cmd.ProcessState, want)
		}
		if line != want {
			t.Fatalf("the worker said %q, want %q", line, want)
		}
	case <-time.After(patience):
		t.Fatalf("the worker did not say %q within %v", want, patience)
	}
}

// Proceed ends the halt. A stopped worker proceeds when it is continued.
func (p *Process) Proceed(t testing.TB) {
	t.Helper()
	if _, err := io.WriteString(p.stdin, "proceed\n"); err != nil {
		t.Fatal(err)
	}
}

// Signal sends the worker a signal. After SIGSTOP it returns once all threads have stopped, which takes a
// moment on a busy machine.
func (p *Process) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	err := p.cmd.Process.Signal(signal)
	if err == nil && signal == syscall.SIGSTOP {
		_, err = syscall.Wait4(p.cmd.Process.Pid, nil, syscall.WUNTRACED, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Ends waits until the process has ended and returns its exit code, -1 if a signal killed it.
func (p *Process) Ends(t testing.TB) (code int) {
	t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatalf("the worker has not ended within %v", patience)
		return 0
	}
}

// Kill sends SIGKILL and waits.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGKILL)
	p.Ends(t)
}

// Terminate asks the worker to stop once it handles SIGTERM, and fails the test if it ends with an
// error.
func (p *Process) Terminate(t testing.TB) {
	t.Helper()
	select {
	case <-p.begun:
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("the worker has not begun within %v", patience)
	}
	p.Signal(t, syscall.SIGTERM)
	if code := p.Ends(t); code != 0 {
		t.Errorf("the worker ended with code %d after SIGTERM", code)
	}
}

// Said reports whether the worker's log contains the text.
func (p *Process) Said(text string) bool { return strings.Contains(p.log.String(), text) }

// log collects a process's stderr.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

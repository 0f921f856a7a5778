package demo

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestWorkerDiesWithTheDemo(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"=1")
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(line, &pid); err != nil {
		t.Fatalf("the parent says %q: %v", line, err)
	}
	if !lives(pid) {
		t.Fatalf("the worker %d is gone before its parent", pid)
	}

	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed, as it must be
	err = await(t.Context(), 2*time.Minute, func() (bool, error) { return !lives(pid), nil })
	if err != nil {
		t.Errorf("the worker %d outlives its parent: %v", pid, err)
	}
}

func TestWorkerThatDoesNotEndIsKilledInTheEnd(t *testing.T) {
	t.Parallel()
	w, err := startWorker(1, exec.Command("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"), "")
	if err != nil {
		t.Fatal(err)
	}
	w.terminate()
	late := make(chan time.Time)
	close(late)
	if err := w.wait(late); err == nil {
		t.Error("a worker that had to be killed counts as ended in order")
	}
	if lives(w.pid) {
		t.Errorf("the worker %d still lives", w.pid)
	}
}

func TestFleetNoticesAWorkerThatEndsByItself(t *testing.T) {
	t.Parallel()
	w, err := startWorker(1, exec.Command("sh", "-c", "exit 3"), "")
	if err != nil {
		t.Fatal(err)
	}
	<-w.done
	if err := (&fleet{workers: []*worker{w}}).check(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("the fleet says %v of a worker that ended with status 3", err)
	}
}

// lives says whether a process runs; one that only waits to be reaped does not.
func lives(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(raw), ") ")
	return !strings.HasPrefix(after, "Z")
}

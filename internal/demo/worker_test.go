package demo

import (
	"os/exec"
	"strings"
	"testing"
)

func TestWorkerThatDoesNotEndIsKilledInTheEnd(t *testing.T) {
	t.Parallel()
	const stubborn = "trap '' TERM; while :; do sleep 0.1; done"
	w, err := startWorker(1, exec.Command("sh", "-c", stubborn), "")
	if err != nil {
		t.Fatal(err)
	}
	other, err := startWorker(2, exec.Command("sh", "-c", stubborn), "")
	if err != nil {
		t.Fatal(err)
	}
	all := &fleet{workers: []*worker{w, other}}
	if err := all.stop(0); err == nil {
		t.Error("workers that had to be killed count as ended in order")
	}
	if !w.ended() || !other.ended() {
		t.Error("a worker still lives")
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

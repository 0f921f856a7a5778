// Package redistest starts a Redis server for a test, on loopback and without files.
package redistest

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"
)

// patience is how long a server may take to start or stop.
const patience = time.Minute

// Start starts a server with optional arguments and returns its address. It stops at the end of the
// test.
func Start(t testing.TB, args ...string) (address string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("this test needs Redis: run `make testtools`, or install Debian's package redis-server (%v)", err)
	}
	for deadline := time.Now().Add(patience); ; {
		address, ok := start(t, path, args)
		if ok {
			return address
		}
		if time.Now().After(deadline) {
			t.Fatalf("redis-server does not listen on %s", address)
		}
	}
}

// start starts a server on a port that was free a moment ago, and reports whether it got the port.
func start(t testing.TB, path string, args []string) (address string, ok bool) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	args = append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir",
		t.TempDir(),
	}, args...)
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if pid(address) == cmd.Process.Pid {
			return address, true
		}
		select {
		case <-ended: // for example because another process took the port
			return address, false
		case <-tick.C:
		}
	}
	return address, false
}

// pid returns the process id of the server at address, 0 if there is none.
func pid(address string) (pid int) {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprint(conn, "INFO server\r\n"); err != nil {
		return 0
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "process_id:%d", &pid); err == nil {
			return pid
		}
	}
	return 0
}

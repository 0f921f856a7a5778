package freeport

import (
	"net"
	"strconv"
	"testing"
)

func TestAPortIsFreeAndNoneThatSystemsHandOut(t *testing.T) {
	t.Parallel()
	for range 50 {
		port, err := TCP(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			t.Fatalf("somebody listens on port %d: %v", port, err)
		}
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		if port < first || port > last {
			t.Errorf("port %d is one that a system may hand out to anybody", port)
		}
	}
}

func TestAPortIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 500 { // random ports alone would repeat within so many
		port, err := TCP(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Fatalf("port %d is answered twice", port)
		}
		seen[port] = true
	}
}

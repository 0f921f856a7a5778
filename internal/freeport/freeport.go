// Package freeport finds ports for servers that must be told theirs before they start.
package freeport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports lie below those that systems hand out by themselves (from 32768 on Linux, from 49152
// elsewhere): nobody gets one of them by chance while the server starts or is down.
const (
	first, last = 20000, 31999
	attempts    = 100
)

// host is the loopback interface's address.
const host = "127.0.0.1"

// TCP answers a port on which nobody listens at 127.0.0.1. That another process picks the same one
// before it is used is possible, and unlikely.
func TCP(ctx context.Context) (port int, err error) {
	for range attempts {
		port = first + rand.IntN(last-first+1)
		var listener net.Listener
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("find a free port from %d to %d: %w", first, last, err)
}

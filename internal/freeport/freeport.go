// Package freeport finds free ports for servers that need one before they start.
package freeport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports are below the ephemeral ranges (from 32768 on Linux, from 49152 elsewhere), so no other
// program gets one by chance while the server starts or is down.
const (
	first, last = 20000, 31999
	attempts    = 100
)

const host = "127.0.0.1"

// reserved holds a UDP socket for each port that TCP returned. The socket keeps other processes, whose
// servers may start at the same time, from picking the port.
var reserved sync.Map //nolint:gochecknoglobals // ports belong to a process, and for as long as it lives

// TCP returns a port of 127.0.0.1 that has no listener. No other call of TCP on this machine returns
// the same port until this process ends.
func TCP(ctx context.Context) (port int, err error) {
	var config net.ListenConfig
	for range attempts {
		port = first + rand.IntN(last-first+1)
		address := net.JoinHostPort(host, strconv.Itoa(port))
		reservation, taken := config.ListenPacket(ctx, "udp4", address)
		if taken != nil {
			err = taken
			continue
		}
		var listener net.Listener
		if listener, err = config.Listen(ctx, "tcp4", address); err == nil {
			reserved.Store(port, reservation)
			return port, listener.Close()
		}
		if err := reservation.Close(); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("find a free port from %d to %d: %w", first, last, err)
}

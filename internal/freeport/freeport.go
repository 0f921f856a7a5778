// Package freeport finds ports for servers that must be told theirs before they start.
package freeport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports lie below those that systems hand out by themselves (from 32768 on Linux, from 49152
// elsewhere): no program gets one of them by chance while the server starts or is down.
const (
	first, last = 20000, 31999
	attempts    = 100
)

// host is the loopback interface's address.
const host = "127.0.0.1"

// reserved holds a UDP socket for each port that TCP answered. It keeps other processes, whose servers
// may start at the same time, from picking the port.
var reserved sync.Map //nolint:gochecknoglobals // ports belong to a process, and for as long as it lives

// TCP answers a port of 127.0.0.1 that has no listener. Until this process ends no other call of TCP
// on this machine answers the same one.
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

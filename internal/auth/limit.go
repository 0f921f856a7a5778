package auth

import (
	"net/netip"
	"sync"
	"time"
)

const (
	limitBurst   = 10              // wrong credentials that an address may send at once
	limitEach    = 6 * time.Second // wait for each further one
	limitEntries = 4096            // addresses remembered
)

// limiter counts wrong credentials by address. An IPv6 address counts as its /64.
type limiter struct {
	now func() time.Time

	mu   sync.Mutex
	full map[netip.Addr]time.Time // when the address may send limitBurst wrong credentials again
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, full: map[netip.Addr]time.Time{}}
}

// wait returns how long the address has to wait; 0: it may try now.
func (l *limiter) wait(addr netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	full, known := l.full[whole(addr)]
	if !known {
		return 0
	}
	return max(0, full.Sub(l.now())-(limitBurst-1)*limitEach)
}

func (l *limiter) wrong(addr netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, addr := l.now(), whole(addr)
	from := l.full[addr]
	if from.Before(now) {
		from = now
	}
	if _, known := l.full[addr]; !known && len(l.full) >= limitEntries {
		l.forget(now)
	}
	l.full[addr] = from.Add(limitEach)
}

// forget drops addresses that no longer count, then any others until there is room.
func (l *limiter) forget(now time.Time) {
	for addr, at := range l.full {
		if !at.After(now) {
			delete(l.full, addr)
		}
	}
	for addr := range l.full {
		if len(l.full) < limitEntries {
			return
		}
		delete(l.full, addr)
	}
}

func whole(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}

package auth

import (
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"
)

const (
	limitBurst   = 10              // wrong credentials that an address may send at once
	limitEach    = 6 * time.Second // and how long it waits for each further one
	limitEntries = 4096            // addresses remembered, and credentials that were right
	limitTrust   = time.Hour       // credentials that were right so recently are looked at whatever else comes from their address
)

// limiter counts wrong credentials by address. An IPv6 address stands for its /64.
type limiter struct {
	now func() time.Time

	mu    sync.Mutex
	full  map[netip.Addr]time.Time        // when the address would have nothing against it any more
	right map[[sha256.Size]byte]time.Time // until when credentials that were right are looked at in any case
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, full: map[netip.Addr]time.Time{}, right: map[[sha256.Size]byte]time.Time{}}
}

// wait answers how long the address has to wait; 0: it may try.
func (l *limiter) wait(addr netip.Addr, secret string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.right[sha256.Sum256([]byte(secret))].After(l.now()) {
		return 0
	}
	full, known := l.full[whole(addr)]
	if !known {
		return 0
	}
	return max(0, full.Sub(l.now())-(limitBurst-1)*limitEach)
}

// known remembers credentials that were right, so that nobody locks their owner out.
func (l *limiter) known(secret string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.right) >= limitEntries {
		clear(l.right)
	}
	l.right[sha256.Sum256([]byte(secret))] = l.now().Add(limitTrust)
}

// wrong counts one.
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

// forget drops addresses that have nothing against them, or else any.
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

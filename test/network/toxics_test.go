package network_test

import (
	"bytes"
	"sync/atomic"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// loseCommit cuts a connection instead of passing on the server's acknowledgement of a commit. It
// does so every other time, Times times in all.
type loseCommit struct {
	Times int64 `json:"times"`

	seen, lost atomic.Int64
}

// committed is the server's message: CommandComplete, 11 bytes, its tag.
const committed = "C\x00\x00\x00\x0bCOMMIT\x00"

// Pipe implements [toxics.Toxic].
func (l *loseCommit) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if c == nil {
				stub.Close()
				return
			}
			if bytes.Contains(c.Data, []byte(committed)) && l.seen.Add(1)%2 == 0 && l.lost.Load() < l.Times {
				l.lost.Add(1)
				end(stub)
				return
			}
			stub.Output <- c
		}
	}
}

// cut closes a connection after Bytes bytes.
type cut struct {
	Bytes int `json:"bytes"`
}

// Pipe implements [toxics.Toxic].
func (l *cut) Pipe(stub *toxics.ToxicStub) {
	for left := l.Bytes; ; {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if c == nil {
				stub.Close()
				return
			}
			c.Data = c.Data[:min(left, len(c.Data))]
			stub.Output <- c
			if left -= len(c.Data); left == 0 {
				end(stub)
				return
			}
		}
	}
}

// end closes a connection and drains it, so that the sender does not wait for ever.
func end(stub *toxics.ToxicStub) {
	stub.Close()
	for {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if c == nil {
				return
			}
		}
	}
}

// silence drops all data, even the end of the connection, like a firewall that has forgotten the
// connection. Once it is healed, new connections work. Old ones stay silent until the toxic is
// removed.
type silence struct{ healed atomic.Bool }

// Pipe implements [toxics.Toxic].
func (s *silence) Pipe(stub *toxics.ToxicStub) {
	if s.healed.Load() {
		new(toxics.NoopToxic).Pipe(stub)
		return
	}
	for {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if c == nil {
				<-stub.Interrupt
				return
			}
		}
	}
}

package network_test

import (
	"bytes"
	"sync/atomic"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// loseCommit cuts a connection instead of passing on the server's answer that it has committed, every other time, so often in all.
type loseCommit struct {
	Times int64 `json:"times"`

	seen, lost atomic.Int64
}

// committed is what the server says: CommandComplete, 11 bytes, its tag.
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
				stub.Close()
				return
			}
			stub.Output <- c
		}
	}
}

// silence drops what is sent and leaves the connection open. What was dropped stays lost when the toxic is removed, as after a firewall has
// forgotten a connection.
type silence struct{}

// Pipe implements [toxics.Toxic].
func (silence) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if c == nil {
				stub.Close()
				return
			}
		}
	}
}

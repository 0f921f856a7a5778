package kafka

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// connections remembers why the last attempt to connect has failed: the client goes on trying, and
// says only that time is up.
type connections struct{ last atomic.Pointer[error] }

// OnBrokerConnect is called by the client.
func (c *connections) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	c.last.Store(&err)
}

// explain adds to an error why there is no connection.
func (c *connections) explain(err error) error {
	if last := c.last.Load(); last != nil && *last != nil {
		return fmt.Errorf("%w; connecting fails: %w", err, *last)
	}
	return err
}

package kafka

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
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

// refuses tells whether the broker refuses events for their own sake, and will again.
func refuses(err error) bool {
	return isOneOf(err, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp)
}

// standing tells whether nothing gets through until an operator changes the broker.
func standing(err error) bool {
	return isOneOf(err, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed,
		kerr.UnsupportedSaslMechanism, kerr.UnknownTopicOrPartition, kerr.InvalidRequiredAcks, kerr.InvalidTopicException)
}

func isOneOf(err error, known ...error) bool {
	return slices.ContainsFunc(known, func(one error) bool { return errors.Is(err, one) })
}

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

// connections keeps the last connection error: the client keeps trying, and reports only a timeout.
type connections struct{ last atomic.Pointer[error] }

// OnBrokerConnect implements a hook of the client.
func (c *connections) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	c.last.Store(&err)
}

func (c *connections) explain(err error) error {
	if last := c.last.Load(); last != nil && *last != nil {
		return fmt.Errorf("%w; connecting fails: %w", err, *last)
	}
	return err
}

// refuses reports whether the broker refuses an event itself, and will again.
func refuses(err error) bool {
	return isOneOf(err, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp)
}

// standing reports whether only an operator's change of the broker can help.
func standing(err error) bool {
	return isOneOf(err, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed,
		kerr.UnsupportedSaslMechanism, kerr.UnknownTopicOrPartition, kerr.InvalidRequiredAcks, kerr.InvalidTopicException)
}

func isOneOf(err error, known ...error) bool {
	return slices.ContainsFunc(known, func(one error) bool { return errors.Is(err, one) })
}

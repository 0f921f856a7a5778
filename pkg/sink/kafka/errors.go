package kafka

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// refuses tells whether the broker refuses events for their own sake, and will again.
func refuses(err error) bool {
	return isOneOf(err, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp)
}

// standing tells whether nothing gets through until an operator changes the broker: it answers, and yet
// the sink is not healthy.
func standing(err error) bool {
	return isOneOf(err, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed,
		kerr.UnsupportedSaslMechanism, kerr.UnknownTopicOrPartition, kerr.InvalidRequiredAcks)
}

func isOneOf(err error, known ...error) bool {
	return slices.ContainsFunc(known, func(one error) bool { return errors.Is(err, one) })
}

// whole is what an error says of the sink: that it fails, or that there is no use in going on.
func whole(err error) error {
	if errors.Is(err, kerr.InvalidTopicException) {
		return publisher.Pause(err)
	}
	return err
}

package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// refuses tells whether the broker refuses events for their own sake, and will again.
func refuses(err error) bool {
	for _, known := range []error{
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord,
		kerr.InvalidTimestamp,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// standing tells whether nothing gets through until an operator changes the broker: it answers, and yet
// the sink is not healthy.
func standing(err error) bool {
	for _, known := range []error{
		kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed,
		kerr.UnsupportedSaslMechanism, kerr.UnknownTopicOrPartition, kerr.InvalidRequiredAcks,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// whole is what an error says of the sink: that it fails, or that there is no use in going on.
func whole(err error) error {
	if errors.Is(err, kerr.InvalidTopicException) {
		return publisher.Pause(err)
	}
	return err
}

package rabbitmq

import (
	"fmt"
	"strings"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// maxShort is the protocol's limit of keys and names, in bytes.
const maxShort = 255

// checkKey reports a placeholder that does not exist.
func checkKey(template string) error {
	rest := keyOf(template, &publisher.Event{})
	if strings.ContainsAny(rest, "{}") {
		return fmt.Errorf("routing_key is %q: it may hold {topic}, {event_type}, {campaign_id}, {aggregate_type} and "+
			"{aggregate_id}, and no other braces", template)
	}
	return nil
}

// keyOf puts what the event says into the template.
func keyOf(template string, e *publisher.Event) string {
	if template == "{event_type}" {
		return e.Type
	}
	return strings.NewReplacer("{topic}", e.Topic, "{event_type}", e.Type, "{campaign_id}", e.CampaignID,
		"{aggregate_type}", e.AggregateType,
		"{aggregate_id}", e.AggregateID).Replace(template)
}

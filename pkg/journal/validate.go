package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// maxNameBytes is the longest event type.
const maxNameBytes = 256

// validate rejects values that would alter the event, or its neighbours, in the call's JSON
// document. The database checks everything else and knows the limits. The error is an
// [InvalidEventError] without campaign and index.
func validate(campaignID string, e *Event) error {
	if err := feed.Refused(e); err != nil {
		return invalid(e, "payload", fmt.Sprintf("cannot be encoded: %v", err))
	}
	for _, text := range [...]struct{ field, value string }{
		{"campaign_id", campaignID},
		{"type", e.Type},
		{"intent", string(e.Intent)},
		{"aggregate_type", e.AggregateType},
		{"aggregate_id", e.AggregateID},
		{"actor", e.Actor},
	} {
		if reason := feed.CheckText(text.value); reason != "" {
			return invalid(e, text.field, reason)
		}
	}
	for i, tag := range e.Tags {
		if reason := feed.CheckText(tag); reason != "" {
			return invalid(e, fmt.Sprintf("tags[%d]", i), reason)
		}
	}
	if reason := checkObject(e.Payload); reason != "" {
		return invalid(e, "payload", reason)
	}
	if reason := checkObject(e.Metadata); reason != "" {
		return invalid(e, "metadata", reason)
	}
	return nil
}

func invalid(e *Event, field, reason string) error {
	return &InvalidEventError{Type: e.Type, Field: field, Reason: reason}
}

// checkObject checks a payload or metadata; an empty one stands for {}. The reason never quotes it.
func checkObject(document json.RawMessage) string {
	switch {
	case len(document) == 0:
		return ""
	case !json.Valid(document):
		var syntax *json.SyntaxError
		if errors.As(json.Unmarshal(document, new(json.RawMessage)), &syntax) {
			return fmt.Sprintf("is not valid JSON, or nested too deep, at byte %d", syntax.Offset)
		}
		return "is not valid JSON"
	case bytes.TrimLeft(document, " \t\r\n")[0] != '{':
		return "must be a JSON object: wrap the value, as in {\"value\": …}"
	}
	return ""
}

package journal

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// validate checks an event against the limits and against what Postgres can store, before the round
// trip. l must have its defaults filled in. The error is an [InvalidEventError]; a good event costs
// no allocation.
func validate(campaignID string, index int, e *Event, l Limits) error {
	field, reason := checkEvent(campaignID, e, l)
	if reason == "" {
		return nil
	}
	return &InvalidEventError{Campaign: campaignID, Index: index, Type: e.Type, Field: field, Reason: reason}
}

// validateCall checks what holds for the events of a call together. l must have its defaults filled in.
func validateCall(l Limits, batches ...Batch) error {
	var events, size int
	for i := range batches {
		b := &batches[i]
		events += len(b.Events)
		for j := range b.Events {
			size += len(b.Events[j].Payload) + len(b.Events[j].Metadata)
		}
		reason := ""
		switch {
		case events > l.EventsPerCall:
			reason = fmt.Sprintf("number more than %d in one call (Limits.EventsPerCall): append them in several calls, "+
				"which may share a transaction", l.EventsPerCall)
		case size > l.CallBytes:
			reason = fmt.Sprintf("hold more than %d bytes of payload and metadata in one call (Limits.CallBytes): append "+
				"them in several calls, which may share a transaction", l.CallBytes)
		default:
			continue
		}
		return &InvalidEventError{Campaign: b.CampaignID, Index: -1, Field: "events", Reason: reason}
	}
	return nil
}

func checkEvent(campaignID string, e *Event, l Limits) (field, reason string) {
	if reason = feed.CheckName(campaignID, l.CampaignIDBytes, "Limits.CampaignIDBytes"); reason != "" {
		return "campaign_id", reason
	}
	if reason = feed.CheckName(e.Type, maxNameBytes, ""); reason != "" {
		return "type", reason
	}
	if err := feed.Refused(e); err != nil {
		return "payload", fmt.Sprintf("cannot be encoded: %v", err)
	}
	if reason = feed.CheckText(e.AggregateType, maxNameBytes, ""); reason != "" {
		return "aggregate_type", reason
	}
	if reason = feed.CheckText(e.AggregateID, maxNameBytes, ""); reason != "" {
		return "aggregate_id", reason
	}
	if reason = feed.CheckText(e.Actor, maxNameBytes, ""); reason != "" {
		return "actor", reason
	}
	switch {
	case e.Version < 0 || e.Version > math.MaxInt32:
		return "version", fmt.Sprintf("is %d: it counts from 1; 0 takes the catalogue's", e.Version)
	case !knownIntent(e.Intent):
		return "intent", fmt.Sprintf("is %s: it must be %s, %s or %s; empty takes the catalogue's",
			feed.Shortened(string(e.Intent)), ProjectionAndReplay, ReplayOnly, AuditOnly)
	case !e.OccurredAt.IsZero() && (e.OccurredAt.UTC().Year() < 1 || e.OccurredAt.UTC().Year() > 9999):
		return "occurred_at", fmt.Sprintf("is in the year %d: it must be in 1 … 9999", e.OccurredAt.UTC().Year())
	}
	if field, reason = checkTags(e.Tags, l); reason != "" {
		return field, reason
	}
	if reason = checkJSON(e.Payload, l.PayloadBytes, "Limits.PayloadBytes", l.PayloadDepth); reason != "" {
		return "payload", reason
	}
	return "metadata", checkJSON(e.Metadata, l.MetadataBytes, "Limits.MetadataBytes", l.PayloadDepth)
}

// knownIntent reports whether i is one of the intents or, for the catalogue to decide, empty.
func knownIntent(i Intent) bool {
	switch i {
	case "", ProjectionAndReplay, ReplayOnly, AuditOnly:
		return true
	default:
		return false
	}
}

func checkTags(tags []string, l Limits) (field, reason string) {
	if len(tags) > l.Tags {
		return "tags", fmt.Sprintf("are %d, the limit is %d (Limits.Tags): move what no query filters by to the metadata",
			len(tags), l.Tags)
	}
	for i, tag := range tags {
		if reason = feed.CheckName(tag, l.TagBytes, "Limits.TagBytes"); reason == "" && slices.Contains(tags[:i], tag) {
			reason = feed.Shortened(tag) + " is there twice: give each tag once"
		}
		if reason != "" {
			return fmt.Sprintf("tags[%d]", i), reason
		}
	}
	return "", ""
}

// checkJSON checks a payload or metadata; none at all stands for the empty object.
func checkJSON(data json.RawMessage, limit int, setting string, depth int) string {
	if len(data) == 0 {
		return ""
	}
	if len(data) > limit {
		return fmt.Sprintf("is %d bytes long, the limit is %d (%s): keep large content elsewhere and append a reference "+
			"to it", len(data), limit, setting)
	}
	printed, fault := scanObject(data, depth)
	switch {
	case fault.problem != jsonFine:
		return fault.reason(depth)
	case printed > limit:
		return fmt.Sprintf("is up to %d bytes long as Postgres prints it (spaces after commas and colons, exponents "+
			"written out), the limit is %d (%s): "+
			"keep large content elsewhere and append a reference to it", printed, limit, setting)
	default:
		return ""
	}
}

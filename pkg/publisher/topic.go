package publisher

import (
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher/internal/pages"
)

// Topic is a named part of the journal.
type Topic struct {
	Name string // required
	Filter
}

// Filter selects the events that meet all of its conditions; zero: all events. A tag is "key" or
// "key=value".
type Filter struct {
	EventTypes     []string         `yaml:"event_types"`     // one of these types
	RequiredTags   []string         `yaml:"required_tags"`   // all of these; "key" also matches "key=" with any value
	AnyOfTags      []string         `yaml:"any_of_tags"`     // one of these tags, in the same way
	CampaignPrefix string           `yaml:"campaign_prefix"` // prefix of the campaign's id
	Intents        []journal.Intent // one of these intents
}

// Match reports whether the topic has the event.
func (f *Filter) Match(e *journal.Event) bool {
	return (len(f.EventTypes) == 0 || slices.Contains(f.EventTypes, e.Type)) &&
		strings.HasPrefix(e.CampaignID, f.CampaignPrefix) &&
		(len(f.Intents) == 0 || slices.Contains(f.Intents, e.Intent)) &&
		!slices.ContainsFunc(f.RequiredTags, func(tag string) bool { return !tagged(e, tag) }) &&
		(len(f.AnyOfTags) == 0 || slices.ContainsFunc(f.AnyOfTags, func(tag string) bool { return tagged(e, tag) }))
}

// tagged reports whether the event has the tag, or the key with any value.
func tagged(e *journal.Event, tag string) bool {
	for _, t := range e.Tags {
		if t == tag || len(t) > len(tag) && t[len(tag)] == '=' && t[:len(tag)] == tag {
			return true
		}
	}
	return false
}

// batchOf returns the events that a topic has, in their current version.
func batchOf(catalogue *journal.Catalogue, topic string, f *Filter, events []journal.Event) (batch []Event) {
	faults := pages.Upcast(catalogue, events)
	for i := range events {
		if e := &events[i]; f.Match(e) {
			batch = append(batch, Event{Event: *e, Topic: topic, fault: faults[e.Position]})
		}
	}
	return batch
}

package journal

import (
	"errors"
	"fmt"
)

// Limits bounds what one event and one call of Append may hold. A zero field means its default.
//
// They are checked before the round trip; whatever breaks one is refused with an
// [InvalidEventError] and nothing is written. The database checks its own, whatever a client has
// checked: one that is raised here is raised there too, as in UPDATE tidemark.limits SET
// payload_bytes = 2097152. Types, aggregate types, aggregate ids and actors have up to 256 bytes.
type Limits struct {
	PayloadBytes    int // length of a payload, as given and as Postgres prints it; default 1 MiB, at most 64 MiB
	PayloadDepth    int // objects and arrays inside one another, in payload and metadata; default 128, at most 1000
	MetadataBytes   int // length of the metadata, as given and as Postgres prints it; default 64 KiB, at most 64 MiB
	Tags            int // tags of an event; default 64, at most 1024
	TagBytes        int // length of a tag; default 256, at most 1024
	CampaignIDBytes int // length of a campaign id; default 256, at most 1024
	EventsPerCall   int // events in one call; default 10,000, at most 100,000
	CallBytes       int // payloads and metadata of one call together; default 64 MiB, at most 128 MiB
}

// A limitRange is what a limit is when it is not set and the most that it can be set to.
type limitRange struct {
	name         string
	value        *int
	normal, most int
}

// maxNameBytes bounds an event's type, aggregate type, aggregate id and actor, each.
const maxNameBytes = 256

// ranges lists the limits. The upper ends keep clear of what Postgres can hold: 2,704 bytes in an
// index entry, 256 MiB in a jsonb value, and a parser whose recursion is bounded by its stack.
func (l *Limits) ranges() [8]limitRange {
	const kib, mib = 1 << 10, 1 << 20
	return [...]limitRange{
		{"PayloadBytes", &l.PayloadBytes, mib, 64 * mib},
		{"PayloadDepth", &l.PayloadDepth, 128, 1000},
		{"MetadataBytes", &l.MetadataBytes, 64 * kib, 64 * mib},
		{"Tags", &l.Tags, 64, 1024},
		{"TagBytes", &l.TagBytes, 256, 1024},
		{"CampaignIDBytes", &l.CampaignIDBytes, 256, 1024},
		{"EventsPerCall", &l.EventsPerCall, 10_000, 100_000},
		{"CallBytes", &l.CallBytes, 64 * mib, 128 * mib},
	}
}

// withDefaults fills in the fields that are zero.
func (l Limits) withDefaults() Limits {
	for _, r := range l.ranges() {
		if *r.value == 0 {
			*r.value = r.normal
		}
	}
	return l
}

// check reports every limit that is negative or above what Postgres can hold.
func (l Limits) check() error {
	var mistakes []error
	for _, r := range l.ranges() {
		if *r.value < 0 || *r.value > r.most {
			mistakes = append(mistakes, fmt.Errorf("limit %s is %d: set it to 1 … %d, or 0 for its default of %d", r.name,
				*r.value, r.most, r.normal))
		}
	}
	return errors.Join(mistakes...)
}

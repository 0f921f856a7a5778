package publisher

import (
	"cmp"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/internal/tracing"
)

// Format is the encoding of events for a broker.
type Format string

// The formats. The message's key is always the campaign id.
const (
	// FormatEnvelope is the default. The body is a JSON object of event_id, campaign_id, version,
	// occurred_at, actor and data. The attributes are event_id, event_type, aggregate_type,
	// aggregate_id, correlation_id, causation_id, created_at, campaign_id, seq and position.
	FormatEnvelope Format = "envelope"
	// FormatCloudEvents is CloudEvents 1.0 in binary mode: the payload is the body, all else attributes.
	FormatCloudEvents Format = "cloudevents"
	// FormatRaw has the payload as the body and the envelope's attributes.
	FormatRaw Format = "raw"
)

// Encoder encodes events. The zero value encodes envelopes. It is safe for concurrent use.
type Encoder struct {
	Format     Format // default FormatEnvelope
	Source     string // of CloudEvents, a URI reference; default "/tidemark"
	TypePrefix string // prefix of the event's type in CloudEvents, e.g. "com.example."; default none
	// AttributePrefix is the prefix of CloudEvents attributes in the protocol's binding: "ce-" for
	// HTTP and NATS (the default), "ce_" for Kafka.
	AttributePrefix string
}

// Message is an encoded event.
type Message struct {
	Key         string // the campaign id: messages with the same key must stay in order
	ContentType string // of the body, a media type
	Body        []byte
	Attributes  []Attribute // headers; names are unique, values never empty
}

// Attribute is a header of a message.
type Attribute struct{ Name, Value string }

// Check returns an error for an unknown format.
func (n Encoder) Check() error {
	return oneOf("format", &n.Format, FormatEnvelope, FormatCloudEvents, FormatRaw)
}

// Encode returns the event as a message. They share no memory.
func (n Encoder) Encode(e *Event) Message {
	return Message{
		Key: e.CampaignID, ContentType: n.ContentType(),
		Body:       n.AppendBody(make([]byte, 0, len(e.Payload)+bodyRoom), e),
		Attributes: n.AppendAttributes(make([]Attribute, 0, attributeRoom), e),
	}
}

const (
	bodyRoom      = 160
	attributeRoom = 14
)

// ContentType returns the media type of the bodies.
func (n Encoder) ContentType() string { return "application/json" }

// AppendBody appends the event's body to b.
func (n Encoder) AppendBody(b []byte, e *Event) []byte {
	if n.Format == FormatCloudEvents || n.Format == FormatRaw {
		return appendPayload(b, e)
	}
	b = append(b, `{"event_id":"`...)
	b = appendUUID(b, e)
	b = append(b, `","campaign_id":`...)
	b = text.AppendJSON(b, e.CampaignID)
	b = append(b, `,"version":`...)
	b = strconv.AppendInt(b, int64(e.Version), 10)
	b = append(b, `,"occurred_at":"`...)
	b = e.OccurredAt.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","actor":`...)
	if e.Actor == "" {
		b = append(b, `null`...)
	} else {
		b = text.AppendJSON(b, e.Actor)
	}
	b = append(b, `,"data":`...)
	b = appendPayload(b, e)
	return append(b, '}')
}

// AppendAttributes appends the event's attributes to a, except empty ones.
func (n Encoder) AppendAttributes(a []Attribute, e *Event) []Attribute {
	if n.Format == FormatCloudEvents {
		return appendTrace(n.appendCloudAttributes(a, e), e)
	}
	// Format all values into one allocation.
	var scratch [128]byte
	b := appendUUID(scratch[:0], e)
	b = e.RecordedAt.UTC().AppendFormat(b, time.RFC3339Nano)
	created := len(b)
	b = strconv.AppendInt(b, e.Seq, 10)
	seq := len(b)
	text := string(strconv.AppendInt(b, e.Position, 10))
	a = append(a, Attribute{"event_id", text[:uuidBytes]}, Attribute{"event_type", e.Type})
	for _, optional := range [...]Attribute{
		{"aggregate_type", e.AggregateType},
		{"aggregate_id", e.AggregateID},
		{"correlation_id", header(e.CorrelationID())},
		{"causation_id", header(e.CausationID())},
	} {
		if optional.Value != "" {
			a = append(a, optional)
		}
	}
	a = append(a,
		Attribute{"created_at", text[uuidBytes:created]},
		Attribute{"campaign_id", e.CampaignID},
		Attribute{"seq", text[created:seq]},
		Attribute{"position", text[seq:]})
	return appendTrace(a, e)
}

func appendPayload(b []byte, e *Event) []byte {
	if len(e.Payload) == 0 {
		return append(b, `{}`...)
	}
	return append(b, e.Payload...)
}

// uuidBytes is the length of a UUID's text.
const uuidBytes = 36

func appendUUID(b []byte, e *Event) []byte {
	for i, part := range [...][]byte{e.ID[:4], e.ID[4:6], e.ID[6:8], e.ID[8:10], e.ID[10:]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}
	return b
}

// header returns cause, or "" if a header cannot hold it.
func header(cause string) string {
	if strings.ContainsFunc(cause, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return cause
}

// appendTrace appends the trace context in the metadata, see https://www.w3.org/TR/trace-context/.
func appendTrace(a []Attribute, e *Event) []Attribute {
	traceparent, tracestate := tracing.Stored(e.Metadata)
	if traceparent != "" {
		a = append(a, Attribute{"traceparent", traceparent})
		if tracestate != "" {
			a = append(a, Attribute{"tracestate", tracestate})
		}
	}
	return a
}

// appendCloudAttributes appends the event's CloudEvents 1.0 attributes except datacontenttype.
// Those after time are extensions. sequence, partitionkey and the causes are documented ones.
// Positions are text because CloudEvents integers have 32 bits.
func (n Encoder) appendCloudAttributes(a []Attribute, e *Event) []Attribute {
	prefix := cmp.Or(n.AttributePrefix, "ce-")
	all := [...]struct{ name, value string }{
		{"specversion", "1.0"},
		{"id", e.Identity()}, // source and id together must be unique, but an event id is unique only within its campaign
		{"source", cmp.Or(n.Source, "/tidemark")},
		{"type", n.TypePrefix + e.Type},
		{"subject", e.CampaignID},
		{"time", e.OccurredAt.UTC().Format(time.RFC3339Nano)},
		{"partitionkey", e.CampaignID},
		{"sequence", strconv.FormatInt(e.Seq, 10)},
		{"position", strconv.FormatInt(e.Position, 10)},
		{"recordedtime", e.RecordedAt.UTC().Format(time.RFC3339Nano)},
		{"eventversion", strconv.Itoa(e.Version)},
		{"aggregatetype", e.AggregateType},
		{"aggregateid", e.AggregateID},
		{"actor", e.Actor},
		{"correlationid", header(e.CorrelationID())},
		{"causationid", header(e.CausationID())},
	}
	for _, one := range all {
		if one.value != "" {
			a = append(a, Attribute{prefix + one.name, one.value})
		}
	}
	return a
}

package publisher

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/feed"

	"github.com/tidemark-go/tidemark/internal/tracing"
)

// Format is how an event is written for a broker.
type Format string

// The formats. In each the message's key is the campaign id.
const (
	// FormatEnvelope has a JSON object of event_id, campaign_id, version, occurred_at, actor and data
	// as the body, and event_id, event_type, aggregate_type, aggregate_id, correlation_id, causation_id,
	// created_at, campaign_id, seq and position as attributes. It is the default.
	FormatEnvelope Format = "envelope"
	// FormatCloudEvents is CloudEvents 1.0 in binary mode: the payload is the body, all else are attributes.
	FormatCloudEvents Format = "cloudevents"
	// FormatCloudEventsStructured is CloudEvents 1.0 in structured mode: all is in a JSON body.
	FormatCloudEventsStructured Format = "cloudevents_structured"
	// FormatRaw has the payload as the body and the attributes of the envelope.
	FormatRaw Format = "raw"
)

// formats lists the formats by name.
func formats() []Format {
	return []Format{FormatEnvelope, FormatCloudEvents, FormatCloudEventsStructured, FormatRaw}
}

// Encoder writes events in a format. Its zero value writes envelopes. It is safe for concurrent use.
type Encoder struct {
	Format     Format // default FormatEnvelope
	Source     string // of CloudEvents, a URI reference; default "/tidemark"
	TypePrefix string // put before the event's type in CloudEvents, e.g. "com.example."; default none
	// AttributePrefix comes before the names of attributes of CloudEvents in binary mode, as the
	// protocol's binding says: "ce-" for HTTP and NATS (the default), "ce_" for Kafka, "cloudEvents_"
	// for AMQP.
	AttributePrefix string
}

// Message is an event written for a broker.
type Message struct {
	Key         string // the campaign id: what is to be kept in order has the same key
	ContentType string // of the body, a media type
	Body        []byte
	Attributes  []Attribute // headers; names are unique, values never empty
}

// Attribute is a header of a message.
type Attribute struct{ Name, Value string }

// Check reports a format that does not exist.
func (n Encoder) Check() error {
	if n.Format != "" && !slices.Contains(formats(), n.Format) {
		return fmt.Errorf("format %q is none of %v", n.Format, formats())
	}
	return nil
}

// Encode returns the event as a message that shares no memory with it.
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

// ContentType is the media type of the bodies.
func (n Encoder) ContentType() string {
	if n.Format == FormatCloudEventsStructured {
		return "application/cloudevents+json; charset=utf-8"
	}
	return "application/json"
}

// AppendBody appends the event's body to b.
func (n Encoder) AppendBody(b []byte, e *Event) []byte {
	switch n.Format {
	case FormatCloudEventsStructured:
		return n.appendCloudEvent(b, e)
	case FormatCloudEvents, FormatRaw:
		return appendPayload(b, e)
	}
	b = append(b, `{"event_id":"`...)
	b = appendUUID(b, e)
	b = append(b, `","campaign_id":`...)
	b = feed.AppendString(b, e.CampaignID)
	b = append(b, `,"version":`...)
	b = strconv.AppendInt(b, int64(e.Version), 10)
	b = append(b, `,"occurred_at":"`...)
	b = e.OccurredAt.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","actor":`...)
	if e.Actor == "" {
		b = append(b, `null`...)
	} else {
		b = feed.AppendString(b, e.Actor)
	}
	b = append(b, `,"data":`...)
	b = appendPayload(b, e)
	return append(b, '}')
}

// AppendAttributes appends the event's attributes to a. Those without a value are left out.
func (n Encoder) AppendAttributes(a []Attribute, e *Event) []Attribute {
	switch n.Format {
	case FormatCloudEventsStructured:
		return appendTrace(a, e)
	case FormatCloudEvents:
		prefix := cmp.Or(n.AttributePrefix, "ce-")
		n.eachCloudAttribute(e, func(name, value string) { a = append(a, Attribute{prefix + name, value}) })
		return appendTrace(a, e)
	}
	// What must be formatted is so into one piece of memory.
	var scratch [128]byte
	b := appendUUID(scratch[:0], e)
	b = e.RecordedAt.UTC().AppendFormat(b, time.RFC3339Nano)
	created := len(b)
	b = strconv.AppendInt(b, e.Seq, 10)
	seq := len(b)
	text := string(strconv.AppendInt(b, e.Position, 10))
	a = append(a, Attribute{"event_id", text[:uuidBytes]}, Attribute{"event_type", e.Type})
	if e.AggregateType != "" {
		a = append(a, Attribute{"aggregate_type", e.AggregateType})
	}
	if e.AggregateID != "" {
		a = append(a, Attribute{"aggregate_id", e.AggregateID})
	}
	for _, cause := range causes(e) {
		if cause.text != "" {
			a = append(a, Attribute{cause.name, cause.text})
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

// uuidBytes is how long the text of a UUID is.
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

// causes answers what led to the event, as far as a header can hold it.
func causes(e *Event) [2]struct{ name, text string } {
	all := [...]struct{ name, text string }{{"correlation_id", e.CorrelationID()}, {"causation_id", e.CausationID()}}
	for i := range all {
		if strings.ContainsFunc(all[i].text, func(r rune) bool { return r < ' ' || r > '~' }) {
			all[i].text = ""
		}
	}
	return all
}

// appendTrace passes on the trace context that the event's metadata carries, see https://www.w3.org/TR/trace-context/.
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

// eachCloudAttribute calls visit for the event's attributes under CloudEvents 1.0 except
// datacontenttype. Those after time are extensions; sequence and partitionkey are documented ones,
// and positions are text because integers of CloudEvents have 32 bits.
func (n Encoder) eachCloudAttribute(e *Event, visit func(name, value string)) {
	visit("specversion", "1.0")
	visit("id", e.Identity()) // source and id together must be unique, and an id is so within its campaign alone
	visit("source", cmp.Or(n.Source, "/tidemark"))
	visit("type", n.TypePrefix+e.Type)
	visit("subject", e.CampaignID)
	visit("time", e.OccurredAt.UTC().Format(time.RFC3339Nano))
	visit("partitionkey", e.CampaignID)
	visit("sequence", strconv.FormatInt(e.Seq, 10))
	visit("position", strconv.FormatInt(e.Position, 10))
	visit("recordedtime", e.RecordedAt.UTC().Format(time.RFC3339Nano))
	visit("eventversion", strconv.Itoa(e.Version))
	for _, optional := range [...]struct{ name, value string }{
		{"aggregatetype", e.AggregateType},
		{"aggregateid", e.AggregateID},
		{"actor", e.Actor},
	} {
		if optional.value != "" {
			visit(optional.name, optional.value)
		}
	}
	for _, cause := range causes(e) { // extensions that CloudEvents documents
		if cause.text != "" {
			visit(strings.ReplaceAll(cause.name, "_", ""), cause.text)
		}
	}
}

// appendCloudEvent appends the event in structured mode. Trace context is an extension of the same
// names, see the Distributed Tracing extension.
func (n Encoder) appendCloudEvent(b []byte, e *Event) []byte {
	b = append(b, '{')
	n.eachCloudAttribute(e, func(name, value string) {
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":`...)
		b = feed.AppendString(b, value)
		b = append(b, ',')
	})
	traceparent, tracestate := tracing.Stored(e.Metadata)
	if traceparent != "" {
		b = append(b, `"traceparent":`...)
		b = append(feed.AppendString(b, traceparent), ',')
	}
	if tracestate != "" {
		b = append(b, `"tracestate":`...)
		b = append(feed.AppendString(b, tracestate), ',')
	}
	b = append(b, `"datacontenttype":"application/json","data":`...)
	b = appendPayload(b, e)
	return append(b, '}')
}

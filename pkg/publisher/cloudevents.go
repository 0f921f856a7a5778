package publisher

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-go/tidemark/internal/tracing"
)

// eachCloudAttribute calls visit for the event's attributes under CloudEvents 1.0 except datacontenttype. Those after time are extensions; sequence and
// partitionkey are documented ones, and positions are text because integers of CloudEvents have 32 bits.
func (n Encoder) eachCloudAttribute(e *Event, visit func(name, value string)) {
	source := n.Source
	if source == "" {
		source = "/tidemark"
	}
	visit("specversion", "1.0")
	visit("id", e.Identity()) // source and id together must be unique, and an id is so within its campaign alone
	visit("source", source)
	visit("type", n.TypePrefix+e.Type)
	visit("subject", e.CampaignID)
	visit("time", e.OccurredAt.UTC().Format(time.RFC3339Nano))
	visit("partitionkey", e.CampaignID)
	visit("sequence", strconv.FormatInt(e.Seq, 10))
	visit("position", strconv.FormatInt(e.Position, 10))
	visit("recordedtime", e.RecordedAt.UTC().Format(time.RFC3339Nano))
	visit("eventversion", strconv.Itoa(e.Version))
	for _, optional := range [...]struct{ name, value string }{{"aggregatetype", e.AggregateType}, {"aggregateid", e.AggregateID}, {"actor", e.Actor}} {
		if optional.value != "" {
			visit(optional.name, optional.value)
		}
	}
}

// EscapeHeader writes what a header cannot hold as %XX, as CloudEvents' bindings to HTTP and NATS say:
// all but printable ASCII, and space, double quote and percent. url.PathUnescape reads it back.
func EscapeHeader(value string) string {
	plain := func(c byte) bool { return c > ' ' && c <= '~' && c != '"' && c != '%' }
	first := 0
	for first < len(value) && plain(value[first]) {
		first++
	}
	if first == len(value) {
		return value
	}
	b := append(make([]byte, 0, len(value)+8), value[:first]...)
	for i := first; i < len(value); i++ {
		if c := value[i]; plain(c) {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "%%%02X", c)
		}
	}
	return string(b)
}

// appendCloudEvent appends the event in structured mode. Trace context is an extension of the same names, see the Distributed Tracing extension.
func (n Encoder) appendCloudEvent(b []byte, e *Event) []byte {
	b = append(b, '{')
	n.eachCloudAttribute(e, func(name, value string) {
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":`...)
		b = AppendJSONString(b, value)
		b = append(b, ',')
	})
	traceparent, tracestate := tracing.Stored(e.Metadata)
	if traceparent != "" {
		b = append(b, `"traceparent":`...)
		b = append(AppendJSONString(b, traceparent), ',')
	}
	if tracestate != "" {
		b = append(b, `"tracestate":`...)
		b = append(AppendJSONString(b, tracestate), ',')
	}
	b = append(b, `"datacontenttype":"application/json","data":`...)
	b = appendPayload(b, e)
	return append(b, '}')
}

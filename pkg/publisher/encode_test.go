package publisher_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

func placed() *publisher.Event {
	return &publisher.Event{Topic: "orders", Event: event.Event{
		ID: uuid.MustParse("018c5f3e-0000-7000-8000-000000000001"), Type: "order_placed", Version: 3, AggregateType: "order",
		AggregateID: "77", Actor: `anna "q" <é>`,
		Payload:    []byte(`{"total": 12.50}`),
		Metadata:   []byte(`{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b", "x": 1}`),
		OccurredAt: time.Date(2026, 2, 3, 5, 5, 6, 120000000, time.FixedZone("", 3600)),
		RecordedAt: time.Date(2026, 2, 3, 4, 5, 7, 0, time.UTC),
		CampaignID: "camp/1", Seq: 9007199254740993, Position: 42,
	}}
}

const traced = " traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 tracestate=a=b"

func TestEncodeWritesEachFormat(t *testing.T) {
	t.Parallel()
	const envelopeAttributes = "event_id=018c5f3e-0000-7000-8000-000000000001 event_type=order_placed " +
		"aggregate_type=order aggregate_id=77 " +
		"created_at=2026-02-03T04:05:07Z campaign_id=camp/1 seq=9007199254740993 position=42" + traced
	for _, test := range []struct {
		encoder                publisher.Encoder
		body, attributes, kind string
	}{
		{
			publisher.Encoder{},
			`{"event_id":"018c5f3e-0000-7000-8000-000000000001","campaign_id":"camp/1","version":3,"occurred_at":"2026-02-03T04:05:06.12Z","actor":"anna \"q\" \u003cé\u003e","data":{"total": 12.50}}`,
			envelopeAttributes, "application/json",
		},
		{publisher.Encoder{Format: publisher.FormatRaw}, `{"total": 12.50}`, envelopeAttributes, "application/json"},
		{
			publisher.Encoder{
				Format: publisher.FormatCloudEvents, AttributePrefix: "ce_",
				Source: "https://shop.example/orders", TypePrefix: "example.",
			},
			`{"total": 12.50}`,
			"ce_specversion=1.0 ce_id=018c5f3e-0000-7000-8000-000000000001/camp%2F1 ce_source=https://shop.example/orders " +
				"ce_type=example.order_placed ce_subject=camp/1 " +
				"ce_time=2026-02-03T04:05:06.12Z ce_partitionkey=camp/1 ce_sequence=9007199254740993 ce_position=42 " +
				"ce_recordedtime=2026-02-03T04:05:07Z ce_eventversion=3 " +
				`ce_aggregatetype=order ce_aggregateid=77 ce_actor=anna "q" <é>` + traced, "application/json",
		},
	} {
		m := test.encoder.Encode(placed())
		if string(m.Body) != test.body || !json.Valid(m.Body) {
			t.Errorf("%s: the body is\n%s, want\n%s", test.encoder.Format, m.Body, test.body)
		}
		if got := written(m.Attributes); got != test.attributes {
			t.Errorf("%s: the attributes are\n%s, want\n%s", test.encoder.Format, got, test.attributes)
		}
		if m.Key != "camp/1" || m.ContentType != test.kind {
			t.Errorf("%s: key %s, content type %s", test.encoder.Format, m.Key, m.ContentType)
		}
	}
}

func written(attributes []publisher.Attribute) string {
	var texts []string
	for _, a := range attributes {
		texts = append(texts, fmt.Sprintf("%s=%s", a.Name, a.Value))
	}
	return strings.Join(texts, " ")
}

func TestEncodeSendsWhatLedToTheEvent(t *testing.T) {
	t.Parallel()
	e := placed()
	e.Metadata = []byte(`{"correlation_id": "first/c", "causation_id": "last/c"}`)
	for format, want := range map[publisher.Format]string{
		publisher.FormatEnvelope:    " correlation_id=first/c causation_id=last/c ",
		publisher.FormatRaw:         " correlation_id=first/c causation_id=last/c ",
		publisher.FormatCloudEvents: " ce-correlationid=first/c ce-causationid=last/c",
	} {
		if got := written(publisher.Encoder{Format: format}.Encode(e).Attributes); !strings.Contains(got, want) {
			t.Errorf("%s: the attributes are %s", format, got)
		}
	}
	e.Metadata = []byte(`{"correlation_id": "a\nb: c", "causation_id": 7}`)
	if got := written(publisher.Encoder{}.Encode(e).Attributes); strings.Contains(got, "ation_id") {
		t.Errorf("the attributes are %s", got)
	}
}

func TestEncodeLeavesOutWhatIsNotThere(t *testing.T) {
	t.Parallel()
	e := placed()
	e.AggregateType, e.AggregateID, e.Actor, e.Payload = "", "", "", nil
	for metadata, why := range map[string]string{
		"": "no metadata", `{"traceparent": 7}`: "a number",
		`{"traceparent": "a\nb: c"}`: "a line break", `{"a": {"traceparent": "x"}}`: "elsewhere",
	} {
		e.Metadata = []byte(metadata)
		m := publisher.Encoder{}.Encode(e)
		if got := written(m.Attributes); strings.Contains(got, "aggregate") || strings.Contains(got, "trace") {
			t.Errorf("%s: the attributes are %s", why, got)
		}
		if !strings.HasSuffix(string(m.Body), `"actor":null,"data":{}}`) {
			t.Errorf("the body is %s", m.Body)
		}
	}
}

func TestEncoderRefusesAFormatThatDoesNotExist(t *testing.T) {
	t.Parallel()
	if err := (publisher.Encoder{Format: "xml"}).Check(); err == nil ||
		!strings.Contains(err.Error(), `format is "xml", it may be one of [envelope`) {
		t.Errorf("got %v", err)
	}
}

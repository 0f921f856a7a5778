package nats_test

import (
	"net/url"
	"testing"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/sink/nats"
)

// The encoding is specified in
// https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/nats-protocol-binding.md#3132-nats-header-values
func TestHeadersOfCloudEventsAreEncodedAsTheBindingSays(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	conn, err := client.Connect(b.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "all", Subjects: []string{"events"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"100%": "100%25", "50%25": "50%2525", "a b": "a%20b", `say "when"`: "say%20%22when%22",
		"Euro € 😀":   "Euro%20%E2%82%AC%20%F0%9F%98%80",
		`back\slash`: `back\slash`, "plain/one": "plain/one", "line\r\nbreak": "line%0D%0Abreak",
	}
	var events []publisher.Event
	for text := range want {
		e := newEvent(text, 1)
		e.Actor = text
		events = append(events, e)
	}
	sink := open(t, nats.Config{
		Servers: []string{b.address()}, Subject: "events",
		Encoder: publisher.Encoder{Format: publisher.FormatCloudEvents},
	})
	if err := sink.Publish(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	for i := range events {
		m, err := s.GetMsg(t.Context(), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		actor, err := url.PathUnescape(m.Header.Get("ce-actor"))
		if err != nil || want[actor] != m.Header.Get("ce-actor") || m.Header.Get("ce-subject") != want[actor] {
			t.Errorf("message %d is of %q, %v, with the headers %q", i+1, actor, err, m.Header)
		}
		if id, err := url.PathUnescape(m.Header.Get("ce-id")); err != nil || id != m.Header.Get(jetstream.MsgIDHeader) {
			t.Errorf("message %d has the id %q, %v, with the headers %q", i+1, id, err, m.Header)
		}
		if m.Header.Get("ce-datacontenttype") != "application/json" {
			t.Errorf("message %d does not say what its data is: %q", i+1, m.Header)
		}
	}
}

// A header of NATS begins after spaces and ends with its line, so values of other formats are encoded too.
func TestHeadersOfAllFormatsAreDecodedOnce(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	conn, err := client.Connect(b.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "all", Subjects: []string{"events"}})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"100%", "50%25", "  led", "trailed ", "line\r\nbreak: x", `say "when"`, "żółw 😀", "plain/one"}
	stored := uint64(0)
	for _, format := range []publisher.Format{publisher.FormatEnvelope, publisher.FormatRaw, publisher.FormatCloudEvents} {
		var events []publisher.Event
		for _, text := range texts {
			e := newEvent(string(format)+text, 1)
			e.Actor = text
			events = append(events, e)
		}
		encoder := publisher.Encoder{Format: format}
		sink := open(t, nats.Config{Servers: []string{b.address()}, Subject: "events", Encoder: encoder})
		if err := sink.Publish(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		for i := range events {
			stored++
			m, err := s.GetMsg(t.Context(), stored)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range encoder.AppendAttributes(nil, &events[i]) {
				if got, err := url.PathUnescape(m.Header.Get(a.Name)); err != nil || got != a.Value {
					t.Errorf("%s: the header %s is %q, %v, for %q", format, a.Name, m.Header.Get(a.Name), err, a.Value)
				}
			}
		}
	}
}

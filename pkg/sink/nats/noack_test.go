package nats_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/sink/nats"
)

func TestAStreamThatConfirmsNothingIsNamed(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	name := unique()
	stream(t, b.address(), jetstream.StreamConfig{Name: name, Subjects: []string{"events"}, NoAck: true})
	s := open(t, nats.Config{Servers: []string{b.address()}, Subject: "events"})
	for what, err := range map[string]error{
		"publish": s.Publish(t.Context(), []publisher.Event{newEvent("a", 1)}), "health": s.Healthy(t.Context()),
	} {
		if err == nil || !strings.Contains(err.Error(), "the stream "+name+" has no_ack") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

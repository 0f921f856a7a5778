package kafka

import (
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// batch is the outcome of one Publish. The client may call back after Publish has returned, so it
// shares no memory with the events.
type batch struct {
	records []*kgo.Record

	mu      sync.Mutex
	outcome *delivery.Outcome
	outage  error // the first error that is not an event's fault
	pending int
	done    chan struct{} // closed when nothing is pending
}

func (s *sink) newBatch(events []publisher.Event) *batch {
	b := &batch{
		records: make([]*kgo.Record, len(events)), outcome: delivery.Of(events), pending: 1, done: make(chan struct{}),
	}
	contentType := []byte(s.cfg.Encoder.ContentType())
	records := make([]kgo.Record, len(events))
	var attrs []publisher.Attribute
	var memory arena
	for i := range events {
		e := &events[i]
		attrs = s.cfg.Encoder.AppendAttributes(attrs[:0], e)
		headers := memory.headers(len(attrs)+1, len(events)-i)
		headers[0] = kgo.RecordHeader{Key: "content-type", Value: contentType}
		for k, a := range attrs {
			headers[k+1] = kgo.RecordHeader{Key: a.Name, Value: memory.keep(func(b []byte) []byte {
				return append(b, a.Value...)
			}, len(a.Value))}
		}
		records[i] = kgo.Record{
			Key:     memory.keep(func(b []byte) []byte { return append(b, e.CampaignID...) }, len(e.CampaignID)),
			Value:   memory.keep(func(b []byte) []byte { return s.cfg.Encoder.AppendBody(b, e) }, len(e.Payload)+bodyRoom),
			Headers: headers,
		}
		b.records[i] = &records[i]
	}
	return b
}

// bodyRoom is about the size of a body without the payload.
const bodyRoom = 160

// arena allocates the memory of a batch's records in larger pieces.
type arena struct {
	bytes []byte
	free  []kgo.RecordHeader
}

const arenaBytes = 16 << 10

// keep returns what write appends, about room bytes.
func (a *arena) keep(write func([]byte) []byte, room int) []byte {
	if cap(a.bytes)-len(a.bytes) < room {
		a.bytes = make([]byte, 0, max(arenaBytes, room))
	}
	start := len(a.bytes)
	a.bytes = write(a.bytes)
	return a.bytes[start:len(a.bytes):len(a.bytes)]
}

// headers returns space for n headers. It allocates for as many records with n headers each.
func (a *arena) headers(n, records int) []kgo.RecordHeader {
	if len(a.free) < n {
		a.free = make([]kgo.RecordHeader, n*records)
	}
	h := a.free[:n:n]
	a.free = a.free[n:]
	return h
}

// tooLarge refuses a record that does not fit into a batch of its own. The client would refuse it
// too, but send the records after it.
func (s *sink) tooLarge(r *kgo.Record) error {
	const perBatch, perRecord, perHeader = 100, 30, 10 // at least what they take besides their bytes
	size := perBatch + perRecord + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += perHeader + len(h.Key) + len(h.Value)
	}
	if size > s.cfg.MaxMessageBytes {
		return fmt.Errorf("%w: it has %d bytes, max_message_bytes is %d; raise it here and on the topic (max.message.bytes)",
			kerr.MessageTooLarge, size, s.cfg.MaxMessageBytes)
	}
	return nil
}

// try reports whether event i may be sent: it and all earlier events of its campaign are not refused.
func (b *batch) try(i int, refused error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outcome.Behind(i) {
		return false
	}
	if refused != nil {
		b.outcome.Fail(i, refused, true)
		return false
	}
	b.pending++
	return true
}

// answered records the result of event i. -1 means that there is nothing more to send.
func (b *batch) answered(i int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.outcome.Fail(i, err, true)
		if b.outage == nil && !refuses(err) {
			b.outage = err
		}
	}
	if b.pending--; b.pending == 0 {
		close(b.done)
	}
}

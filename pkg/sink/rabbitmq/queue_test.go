package rabbitmq_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/pkg/sink/rabbitmq"
	"github.com/tidemark-go/tidemark/test/support/proxy"
)

// queue is an exchange of a test's own and a queue that is bound to all of its keys, of a broker behind a proxy.
type queue struct {
	t     *testing.T
	name  string // of both
	url   string // through the proxy
	proxy *proxy.Proxy
	ch    *amqp.Channel // past it

	mu       sync.Mutex
	received []publishertest.Received
	last     amqp.Delivery
}

func newQueue(t *testing.T, args amqp.Table) *queue {
	t.Helper()
	b := running(t)
	conn, err := amqp.Dial(b.url(b.address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	q := &queue{t: t, name: "test " + uuid.NewString(), ch: ch}
	if err := ch.ExchangeDeclare(q.name, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(q.name, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(q.name, "#", q.name, false, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := ch.QueueDelete(q.name, false, false, false); err != nil {
			t.Error(err)
		}
		if err := ch.ExchangeDelete(q.name, false, false); err != nil {
			t.Error(err)
		}
	})
	q.proxy = proxy.Start(t, b.address)
	q.url = b.url(q.proxy.Listen)
	return q
}

func (q *queue) start() {
	q.t.Helper()
	q.proxy.Open(q.t)
}

func (q *queue) stop() (start func()) {
	q.proxy.Stop()
	return q.start
}

// stall lets nothing that the broker says come through.
func (q *queue) stall() (resume func()) {
	q.t.Helper()
	q.proxy.Toxic(q.t, "timeout", "downstream", map[string]int{"timeout": 0})
	return func() { q.proxy.Heal(q.t) }
}

// read takes what is in the queue.
func (q *queue) read(context.Context) ([]publishertest.Received, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		d, ok, err := q.ch.Get(q.name, true)
		if err != nil || !ok {
			return q.received, err
		}
		q.last = d
		received := publishertest.Received{EventID: uuid.MustParse(d.MessageId[:36]), Body: d.Body}
		for _, name := range []string{"campaign_id", "cloudEvents_subject"} {
			if campaign, ok := d.Headers[name].(string); ok {
				received.CampaignID = campaign
			}
		}
		q.received = append(q.received, received)
	}
}

func (q *queue) open(cfg rabbitmq.Config) *rabbitmq.Sink {
	q.t.Helper()
	if cfg.URL == "" {
		cfg.URL = q.url
	}
	if cfg.Exchange == "" {
		cfg.Exchange = q.name
	}
	opened, err := rabbitmq.New(cfg)
	if err != nil {
		q.t.Fatal(err)
	}
	s := opened.(*rabbitmq.Sink)
	q.t.Cleanup(func() { _ = s.Close() })
	return s
}

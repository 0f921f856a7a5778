package kafka_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/pkg/sink/kafka"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
	"github.com/tidemark-go/tidemark/test/support/settingtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// large makes an event larger than brokers accept, even compressed.
func large(e *publisher.Event) {
	noise := make([]byte, 1_500_000)
	_, _ = rand.Read(noise)
	e.Payload = fmt.Appendf(nil, `{"n": %q}`, hex.EncodeToString(noise))
}

func newEvent(campaign string, seq int64) publisher.Event {
	return publisher.Event{Topic: "t", Event: event.Event{
		ID: uuid.New(), Type: "noted", CampaignID: campaign, Seq: seq,
		Payload: []byte(`{}`),
	}}
}

func TestKafkaKeepsTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]kafka.Config{
		"what is too large is refused here": {},
		"what is too large is refused by the broker": {
			MaxMessageBytes: 10 << 20,
			Encoder:         publisher.Encoder{Format: publisher.FormatCloudEvents, AttributePrefix: "ce_"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			publishertest.Run(t, cfg.Encoder, func(t *testing.T) publishertest.Target {
				b := start(t)
				cfg := cfg
				cfg.Brokers = []string{b.address()}
				return publishertest.Target{Sink: open(t, cfg), Received: b.read, Poison: large, Stall: b.stall, Stop: b.stop}
			})
		})
	}
}

func TestEventsOfOneCampaignAreInOnePartitionUnderItsKey(t *testing.T) {
	t.Parallel()
	b := start(t)
	s := open(t, kafka.Config{Brokers: []string{b.address()}, Encoder: publisher.Encoder{Format: publisher.FormatRaw}})
	var events []publisher.Event
	for seq := range int64(20) {
		events = append(events, newEvent("a", seq+1), newEvent("b", seq+1), newEvent("c", seq+1))
	}
	if err := s.Publish(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.address()), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	partitions := map[string]int32{}
	for n := 0; n < len(events); {
		fetches := reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d of %d events have arrived", n, len(events))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			n++
			if p, ok := partitions[string(r.Key)]; ok && p != r.Partition {
				t.Errorf("campaign %s is in partitions %d and %d", r.Key, p, r.Partition)
			}
			partitions[string(r.Key)] = r.Partition
			if !slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool {
				return h.Key == "content-type" && string(h.Value) == "application/json"
			}) {
				t.Errorf("the headers are %v", r.Headers)
			}
		})
	}
}

func TestWhatTheBrokerRefusesByTheBatchIsPutDownToTheEventAtFault(t *testing.T) {
	t.Parallel()
	b := start(t, kfake.SeedTopics(1, "narrow"))
	s := open(t, kafka.Config{Brokers: []string{b.address()}, Topic: "narrow", MaxMessageBytes: 10 << 20})
	events := []publisher.Event{newEvent("a", 1), newEvent("b", 1), newEvent("c", 1), newEvent("b", 2), newEvent("a", 2)}
	large(&events[1])
	var refused *publisher.BatchError
	if err := s.Publish(t.Context(), events); !errors.As(err, &refused) {
		t.Fatalf("got %v", err)
	}
	if f := refused.Failures; len(f) != 2 || f[0].Index != 1 || !f[0].Permanent ||
		!errors.Is(f[0].Err, kerr.MessageTooLarge) || f[1].Index != 3 || !errors.Is(f[1].Err, publisher.ErrNotTried) {
		t.Errorf("the failures are %+v", f)
	}
}

func TestAnOutageBlamesNoEvent(t *testing.T) {
	t.Parallel()
	acl := func(operation kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{
			Resource: kmsg.ACLResourceTypeTopic, Name: topic, Pattern: kmsg.ACLResourcePatternTypeLiteral,
			Operation: operation, Allow: true,
		}
	}
	b := start(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("SCRAM-SHA-512", "root", "pw"),
		kfake.User("PLAIN", "reader", "pw", acl(kmsg.ACLOperationDescribe), kfake.ACL{
			Resource: kmsg.ACLResourceTypeCluster, Name: "kafka-cluster", Pattern: kmsg.ACLResourcePatternTypeLiteral,
			Operation: kmsg.ACLOperationIdempotentWrite, Allow: true,
		}), kfake.User("PLAIN", "stranger", "pw", acl(kmsg.ACLOperationDescribe)))
	for name, test := range map[string]struct {
		cfg     kafka.Config
		want    error
		healthy bool // the broker shows the topic even to a client that may not produce
	}{
		"a topic that does not exist": {kafka.Config{
			Topic: "nowhere", User: "root", Password: "pw",
			SASL: "scram-sha-512",
		}, kerr.UnknownTopicOrPartition, false},
		"a topic that may not be read": {
			kafka.Config{Topic: "secret", User: "reader", Password: "pw"},
			kerr.TopicAuthorizationFailed, false,
		},
		"a topic that may only be read": {
			kafka.Config{User: "reader", Password: "pw"}, kerr.TopicAuthorizationFailed, true,
		},
		"a producer that is not allowed": {
			kafka.Config{User: "stranger", Password: "pw"}, kerr.ClusterAuthorizationFailed, true,
		},
		// Other brokers report SASL_AUTHENTICATION_FAILED. This one hangs up, or leaves the client
		// to its timeout.
		"a password that is wrong": {kafka.Config{User: "root", Password: "guess", SASL: "scram-sha-512"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.cfg.Brokers = []string{b.address()}
			s := open(t, test.cfg)
			patience := time.Minute
			if test.want == nil {
				patience = 2 * time.Second // stands in for the client's timeout
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := s.Publish(ctx, []publisher.Event{newEvent("a", 1)})
			var refused *publisher.BatchError
			if err == nil || test.want != nil && !errors.Is(err, test.want) || errors.As(err, &refused) {
				t.Errorf("publish: got %v, want %v", err, test.want)
			}
			if test.want != nil && reflect.TypeOf(err) != reflect.TypeOf(publisher.Outage(err)) {
				t.Errorf("publish: %v is not taken as an outage", err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := s.Healthy(ctx); (err == nil) != test.healthy || err != nil && test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("healthy: got %v, want %v", err, test.want)
			}
		})
	}
}

func TestCloseLetsABatchUnderWayFinish(t *testing.T) {
	t.Parallel()
	b := start(t)
	s := open(t, kafka.Config{Brokers: []string{b.address()}})
	resume := b.stall()
	defer resume()
	published, closed := make(chan error, 1), make(chan error, 1)
	go func() { published <- s.Publish(t.Context(), []publisher.Event{newEvent("a", 1), newEvent("b", 1)}) }()
	b.awaitStalled()
	go func() { closed <- s.Close() }()
	for !errors.Is(s.Healthy(t.Context()), publisher.ErrClosed) {
		runtime.Gosched()
	}
	select {
	case err := <-published:
		t.Fatalf("given up while the broker may still answer: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	resume()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := <-published; err != nil {
		t.Errorf("the batch under way: %v", err)
	}
}

func settings(t *testing.T, address string) publisher.Settings {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return publisher.Settings{Publisher: "p", URL: u, Logger: slog.New(slog.DiscardHandler), Decode: func(any) error {
		return nil
	}}
}

func TestAURLIsEnough(t *testing.T) {
	t.Parallel()
	tls, files := settingtest.Certificate(t)
	b := start(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "anna", "p@ss"), kfake.TLS(tls))
	sink, err := kafka.Kind().Open(settings(t, "kafkas://anna:p%40ss@"+b.address()+",127.0.0.1:1/"+
		topic+"?sasl=scram-sha-256&ca="+url.QueryEscape(files.Cert)))
	if err != nil {
		t.Fatal(err)
	}
	s := sink.(*kafka.Sink)
	defer func() { _ = s.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Publish(ctx, []publisher.Event{newEvent("a", 1)}); err != nil || s.Name() != "p" {
		t.Errorf("%s: %v", s.Name(), err)
	}
	if err := s.Healthy(ctx); err != nil {
		t.Error(err)
	}
}

func TestSettingsThatAreWrongAreNamedWithTheRemedy(t *testing.T) {
	t.Parallel()
	for address, wants := range map[string][]string{
		"kafka:": {"brokers are missing: name at least one as host:port", "topic is missing"},
		"kafka://h:0/a%20b?max_message_bytes=7": {
			`brokers holds "h:0": write host:port`, `topic is "a b"`, "max_message_bytes is 7: it must be from 1024",
		},
		"kafka://u:p@h/t?sasl=md5":  {`sasl is "md5": it must be plain, scram-sha-256`},
		"kafka://u@h/t":             {`user is "u" and user or password is missing`},
		"kafka://h/t?sasl=plain":    {`sasl is "plain" and user is missing`},
		"kafka://h/t?ca=/no/such":   {"ca: open /no/such", "name a PEM file"},
		"kafka://h/t?topics=events": {`the URL has a parameter "topics": it may have brokers, topic`},
	} {
		_, err := kafka.Kind().Open(settings(t, address))
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is missing in\n%v", address, want, err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kafka.Kind().Open(settings(t, "kafka://h/t?ca="+file)); err == nil ||
		!strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("got %v", err)
	}
}

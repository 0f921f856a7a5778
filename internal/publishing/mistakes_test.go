package publishing_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/publishing"
	"github.com/tidemark-go/tidemark/internal/sinks"
)

// A file with many mistakes names each of them, with its line, the value, what it may be and what
// to do; of one sink's settings too.
func TestEachMistakeOfAFileIsNamedWithItsRemedy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "publishers.yaml")
	if err := os.WriteFile(path, []byte(`topics:
  orders:
    event_types: []
    required_tags: [""]
    campaign_prefix: [a]
  others: {intents: projection}
  others: {}
publishers:
  a:
    topics: [orders, none]
    sink: kafka://localhost
    batch_size: 99999999
    concurrency: 1e3
    attempts: many
    start: position -1
  b:
    topics: []
    sink: {kind: nats, servers: "127.0.0.1:4222", subject: [a], strict: maybe}
    order: Global
    on_refusal: retry
    backoff_max: 1us
  c:
    topics: [orders]
    sink: {kind: webhook, url: "https://example.com/", timeout: 5, secrets: whsec_x, headers: {X-Tenant: [7]}}
  d:
    topics: [orders]
    sink: {kind: webhook, url: "https://example.com/", secrets: ["nope"], concurrency: -1, allow_networks: ["10.0.0.0/99"]}
    retry_base: 10m
    retry_max: 1s
  e:
    topics: [orders, orders]
    sink: {kind: redis, servers: [localhost], max_length: -5, replica_timeout: 10s, min_replicas: two, connections: 3}
  f:
    topics: [orders]
    sink: {kind: redis, servers: [localhost], max_length: -5, replica_timeout: 10s}
  g:
    topics: [orders]
    sink: {kind: file, path: x, sync: perhaps}
  h:
    topics: [orders]
    sink: nats://127.0.0.1/orders?strict=maybe&connect_timeout=soon
  "":
    topics: [orders]
    sink: "log:"
`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := publishing.Load(path, sinks.Kinds(), slog.New(slog.DiscardHandler))
	if err == nil {
		t.Fatal("no mistake was reported")
	}
	var got []string
	for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "publishers: "), "\n") {
		got = append(got, strings.TrimPrefix(line, path+":"))
	}
	want := []string{
		`3: event_types is empty: name at least one, or leave it out`,
		`4: required_tags holds an empty item: leave it out`,
		`5: campaign_prefix is a list, it must be one text`,
		`6: intents holds "projection", known are projection_and_replay, replay_only, audit_only`,
		`7: topics has "others" twice, first in line 6: leave one of them out`,
		`10: there is no topic "none": the file has orders, others`,
		`11: publisher "a": topic is missing: name it as kafka://host:9092/topic, or under topic`,
		`12: batch_size is "99999999", it must be a whole number from 1 to 10000`,
		`13: concurrency is "1e3", it must be a whole number from 1 to 1000`,
		`14: attempts is "many", it must be a whole number from 1 to 1000000`,
		`15: start is "position -1", it may be "beginning", "end", "position 42" (what comes after it) or a time such as 2026-01-31T08:00:00Z`,
		`16: publisher "b" has no topics: name those that it publishes`,
		`18: publisher "b": subject is a list, it must be one text`,
		`18: publisher "b": strict is "maybe", it must be true or false`,
		`19: order is "Global", it may be one of [campaign global]`,
		`20: on_refusal is "retry", it may be one of [park_campaign park_event block]`,
		`21: backoff_max is "1us", it must be a length of time such as 500ms, 30s or 5m, and at least 1ms`,
		`24: publisher "c": timeout is "5", it must be a length of time such as 500ms, 30s or 5m`,
		`24: X-Tenant is a list, it must be one text`,
		`25: publisher "d" has retry_base 10m0s, which must not be longer than retry_max, 1s`,
		`27: publisher "d": secret 1: the secret does not begin with whsec_: give it as it was handed out, or make one with: echo whsec_$(openssl rand -base64 32)`,
		`27: publisher "d": allow_networks holds "10.0.0.0/99": give networks such as 10.1.0.0/16 or fd00:1::/64, or addresses`,
		`27: publisher "d": concurrency is -1, it must be 1 to 1000`,
		`31: topic "orders" is named twice: leave one of them out`,
		`32: publisher "e": min_replicas is "two", it must be a whole number`,
		`32: publisher "e": unknown field "connections": a sink of this kind may have kind, url, servers, cluster, database, stream, max_length, max_message_bytes, user, password, connect_timeout, min_replicas, replica_timeout, tls, ca, cert, key, server_name`,
		`35: publisher "f": max_length is -5: it must not be negative`,
		`35: publisher "f": replica_timeout is 10s: it must be from 1ms to 5s`,
		`38: publisher "g": sync is "perhaps", it must be true or false`,
		`41: publisher "h": connect_timeout is "soon" in the URL: it must be a length of time such as 500ms, 30s or 5m`,
		`41: publisher "h": strict is "maybe" in the URL: it must be true or false`,
		`42: the name of a publisher is "": give it one, positions are kept under it`,
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("missing: %s", want[i])
		case i >= len(want):
			t.Errorf("not wanted: %s", got[i])
		case got[i] != want[i]:
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}

func TestAMistakeInTheEnvironmentNamesTheVariable(t *testing.T) {
	t.Parallel()
	for want, settings := range map[string]config.Publishing{
		"TIDEMARK_PUBLISHERS and TIDEMARK_PUBLISH_URL are both set: use the file, or the URL for the simple case": {Publishers: "x.yaml", PublishURL: "log:"},
		`TIDEMARK_PUBLISH_EVENT_TYPES is "a,b", which goes with TIDEMARK_PUBLISH_URL alone: in the file`:          {Publishers: "x.yaml", PublishEventTypes: "a,b"},
		`TIDEMARK_PUBLISH_FORMAT is "raw", which goes with TIDEMARK_PUBLISH_URL alone: in the file`:               {Publishers: "x.yaml", PublishFormat: "raw"},
		`TIDEMARK_PUBLISH_URL: there is no kind of sink "nowhere": known are file, kafka`:                         {PublishURL: "nowhere://host"},
		"TIDEMARK_PUBLISH_URL: the sink's URL cannot be read: it is written like kind://host/path":                {PublishURL: "host"},
		"TIDEMARK_PUBLISH_URL: there are no secrets to sign with":                                                 {PublishURL: "https://example.com/events"},
		"x.yaml: no such file or directory: name a YAML file that says what is published where":                   {Publishers: "x.yaml", PublishFormat: "envelope"},
	} {
		if _, err := publishing.Configured(settings, sinks.Kinds(), slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", settings, err, want)
		}
	}
}

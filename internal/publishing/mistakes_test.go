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

// The error names each mistake of the file with its line, the value, the allowed values and a
// remedy. That includes the settings of a sink.
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
    retry_max: 1h
  e:
    topics: [orders, orders]
    sink: {kind: kafka, brokers: [localhost], topic: a, max_message_bytes: two, connections: 3}
  f:
    topics: [orders]
    sink: {kind: kafka, brokers: [localhost], max_message_bytes: -5, user: u}
  g:
    topics: [orders]
    sink: {kind: log, level: high, body: perhaps}
  h:
    topics: [orders]
    sink: statistics:?strict=maybe&every=soon
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
		`6: intents holds "projection", it may hold projection_and_replay, replay_only, audit_only`,
		`7: topics has "others" twice, first in line 6: leave one of them out`,
		`10: there is no topic "none": the file has orders, others`,
		`11: publisher "a": topic is missing: name it as kafka://host:9092/topic, or under topic`,
		`12: batch_size is "99999999", it must be a whole number from 1 to 10000`,
		`13: concurrency is "1e3", it must be a whole number from 1 to 1000`,
		`14: attempts is "many", it must be a whole number from 1 to 1000000`,
		`15: start is "position -1", it may be "beginning", "end", "position 42" (what comes after it) or a time such as 2026-01-31T08:00:00Z`,
		`17: topics is empty: name at least one, or leave it out`,
		`18: publisher "b": subject is a list, it must be one text`,
		`18: publisher "b": strict is "maybe", it must be true or false`,
		`19: order is "Global", it must be one of campaign, global`,
		`20: on_refusal is "retry", it must be one of park_campaign, park_event, block`,
		`21: backoff_max is "1us", it must be a length of time such as 500ms, 30s or 5m, and at least 1ms`,
		`24: publisher "c": timeout is "5", it must be a length of time such as 500ms, 30s or 5m, and at least 1ms`,
		`24: X-Tenant is a list, it must be one text`,
		`27: publisher "d": secret 1: the secret does not begin with whsec_: use it as it was issued, or make one with: echo whsec_$(openssl rand -base64 32)`,
		`27: publisher "d": allow_networks holds "10.0.0.0/99": give networks such as 10.1.0.0/16 or fd00:1::/64, or addresses`,
		`27: publisher "d": concurrency is -1, it must be 1 to 1000`,
		`31: topic "orders" is named twice: leave one of them out`,
		`32: publisher "e": max_message_bytes is "two", it must be a whole number`,
		`32: the sink of publisher "e" has no field "connections": it may have brokers, topic, user, password, sasl, max_message_bytes, tls, ca, cert, key, server_name`,
		`35: publisher "f": user is "u" and user or password is missing: name both, or neither`,
		`35: publisher "f": topic is missing: name it as kafka://host:9092/topic, or under topic`,
		`35: publisher "f": max_message_bytes is -5: it must be from 1024 to 1073741823`,
		`38: publisher "g": body is "perhaps", it must be true or false`,
		`41: publisher "h": every is "soon" in the URL: it must be a length of time such as 500ms, 30s or 5m, and at least 1ms`,
		`41: publisher "h": the URL has a parameter "strict": it may have every`,
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
		`TIDEMARK_PUBLISH_URL: there is no kind of sink "nowhere": known are kafka, log`:                          {PublishURL: "nowhere://host"},
		"TIDEMARK_PUBLISH_URL: the sink's URL cannot be read: write it like kind://host/path":                     {PublishURL: "host"},
		"TIDEMARK_PUBLISH_URL: there are no secrets to sign with":                                                 {PublishURL: "https://example.com/events"},
		"x.yaml: no such file or directory: name a YAML file that says what is published where":                   {Publishers: "x.yaml"},
	} {
		if _, err := publishing.Configured(settings, sinks.Kinds(), slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", settings, err, want)
		}
	}
}

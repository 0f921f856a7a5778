package publishing_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/publishing"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
)

// opened records the arguments of Kind.Open.
type opened struct {
	memory.Sink
	url      string
	encoder  publisher.Encoder
	settings settings
}

type settings struct {
	Password string        `yaml:"password"`
	Linger   time.Duration `yaml:"linger"`
	Brokers  []string      `yaml:"brokers"`
}

func kinds() []publisher.Kind {
	return []publisher.Kind{{
		Name: "test", Schemes: []string{"tests"},
		Open: func(s publisher.Settings) (publisher.Sink, error) {
			o := &opened{encoder: s.Encoder}
			if s.URL != nil {
				o.url = s.URL.String()
			}
			if err := s.Decode(&o.settings); err != nil {
				return nil, err
			}
			if o.settings.Password == "wrong" {
				o = nil // a typed nil beside an error, as a kind returns that passes on the result of New
				return o, errors.New(`password "wrong" is wrong`)
			}
			return o, nil
		},
	}}
}

func load(t *testing.T, content string) (*publishing.Routes, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "publishers.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return publishing.Load(path, kinds(), slog.New(slog.DiscardHandler))
}

func TestLoadReadsAllThereIs(t *testing.T) {
	t.Setenv("SECRET", "s3:c$ret")
	routes, err := load(t, `
topics:
  all:
  orders:
    event_types: [order_placed, order_paid]
    required_tags: [customer]
    any_of_tags: [a, b=1]
    campaign_prefix: shop-
    intents: [audit_only]
publishers:
  one:
    topics: [all, orders]
    sink: tests://host/path
  two:
    topics: orders
    sink:
      kind: test
      password: ${SECRET} costs $$5
      linger: 5ms
      brokers: [a:1, b:2]
    format: cloudevents
    cloudevents: {source: /shop, type_prefix: shop.}
    start: position 42
    batch_size: 7
    concurrency: 2
    order: global
    timeout: 3s
    on_refusal: park_event
    attempts: 9
    retry_base: 1s
    retry_max: 2s
    backoff_max: 4s
`)
	if err != nil {
		t.Fatal(err)
	}
	wantTopics := []publisher.Topic{{Name: "all"}, {Name: "orders", Filter: publisher.Filter{
		EventTypes: []string{"order_placed", "order_paid"}, RequiredTags: []string{"customer"},
		AnyOfTags: []string{"a", "b=1"}, CampaignPrefix: "shop-", Intents: []event.Intent{event.AuditOnly},
	}}}
	if !reflect.DeepEqual(routes.Topics, wantTopics) {
		t.Errorf("the topics are %+v", routes.Topics)
	}
	one, two := routes.Publishers[0], routes.Publishers[1]
	if s := one.Sink.(*opened); s.url != "tests://host/path" || fmt.Sprint(one.Topics) != "[all orders]" {
		t.Errorf("one is %+v", one)
	}
	s := two.Sink.(*opened)
	if want := (settings{
		"s3:c$ret costs $5", 5 * time.Millisecond,
		[]string{"a:1", "b:2"},
	}); !reflect.DeepEqual(s.settings, want) {
		t.Errorf("two's sink has the settings %+v", s.settings)
	}
	if want := (publisher.Encoder{
		Format: publisher.FormatCloudEvents, Source: "/shop",
		TypePrefix: "shop.",
	}); s.encoder != want {
		t.Errorf("two's sink encodes with %+v", s.encoder)
	}
	two.Sink = nil
	if want := (publisher.Publisher{
		Name: "two", Topics: []string{"orders"}, Start: publisher.Start{After: 42}, BatchSize: 7, Concurrency: 2,
		Order: publisher.OrderGlobal, Timeout: 3 * time.Second,
		OnRefusal: publisher.ParkEvent, Attempts: 9, RetryBase: time.Second, RetryMax: 2 * time.Second,
		BackoffMax: 4 * time.Second,
	}); !reflect.DeepEqual(two, want) {
		t.Errorf("two is %+v", two)
	}
}

func TestLoadReportsAllMistakesWithTheirLines(t *testing.T) {
	t.Parallel()
	_, err := load(t, `topics:
  orders:
    event_type: [a]
    intents: [sometimes]
publishers:
  one:
    topics: [orders, ordrs]
    sink: nowhere://host
    batch_size: 0
    start: yesterday
  two:
    sink: {kind: test, password: wrong}
    order: random
    timeout: 5
  three:
    topics: orders
    sink:
      kind: test
      lingr: 5ms
  four:
    topics: orders
    sink: "test://${NO_SUCH_VARIABLE}"
  five:
    topics: orders
more: 1
`)
	if err == nil {
		t.Fatal("no mistake was reported")
	}
	for _, want := range []string{
		`:3: topic "orders" has no field "event_type"`, `:4: intents holds "sometimes"`, `:7: there is no topic "ordrs"`,
		`:8: publisher "one": there is no kind of sink "nowhere": known are test`,
		`:9: batch_size is "0"`, `:10: start is "yesterday"`, `:11: publisher "two" has no topics`,
		`:12: publisher "two": password "wrong" is wrong`, `:13: order is "random"`, `:14: timeout is "5"`,
		`:19: the sink of publisher "three" has no field "lingr"`, `:22: the environment has no variable NO_SUCH_VARIABLE`,
		`:23: publisher "five" has no sink`, `:25: the file has no field "more"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in\n%v", want, err)
		}
	}
}

func TestLoadRefusesWhatIsNoConfiguration(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"": ":1: it is empty", "a: [": "it is not YAML",
		"topics: {a: }\n": "there are no publishers", "7": "the file must be a mapping",
	} {
		if _, err := load(t, content); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", content, err)
		}
	}
}

func TestAURLIsTheSimpleCase(t *testing.T) {
	t.Parallel()
	routes, err := publishing.Configured(config.Publishing{PublishURL: "test://host"}, kinds(),
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if s := routes.Publishers[0].Sink.(*opened); s.url != "test://host" || s.encoder != (publisher.Encoder{}) ||
		!reflect.DeepEqual(routes.Topics, []publisher.Topic{{Name: "events"}}) {
		t.Errorf("got %+v", routes)
	}
	for _, bad := range []string{"x", "nowhere://a", "test://us er:secret@%zz"} {
		if _, err := publishing.Configured(config.Publishing{PublishURL: bad}, kinds(), slog.New(slog.DiscardHandler)); err == nil ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", bad, err)
		}
	}
}

package publishing

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Routes is what is to be published where.
type Routes struct {
	Topics     []publisher.Topic
	Publishers []publisher.Publisher
}

// Close closes the sinks. Call it once nothing is published any more.
func (r *Routes) Close() error {
	var errs []error
	for _, p := range r.Publishers {
		if closer, ok := p.Sink.(io.Closer); ok {
			if err := closer.Close(); err != nil {
				errs = append(errs, fmt.Errorf("close sink %s: %w", p.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Load reads a file. Sinks are opened, and none of them connects yet.
func Load(path string, kinds []publisher.Kind, logger *slog.Logger) (*Routes, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("publishers: %w: name a YAML file that says what is published where", err)
	}
	f := &file{name: path}
	routes := &Routes{}
	// what is written twice is reported with all else
	parsed, err := parser.ParseBytes(content, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		f.wrongYAML(nil, err, "it is not YAML (a text that ends in a colon, or holds one before a space, stands in quotes)")
	} else if len(parsed.Docs) == 0 || isEmpty(parsed.Docs[0].Body) {
		f.wrong(nil, "it is empty: it needs topics and publishers")
	} else {
		l := &loader{file: f, kinds: kinds, logger: logger, routes: routes, topics: map[string]bool{}}
		l.root(parsed.Docs[0].Body)
	}
	if err := f.err(); err != nil {
		return nil, errors.Join(fmt.Errorf("publishers: %w", err), routes.Close())
	}
	return routes, nil
}

// What a file may ask for: a round has up to four times as many events as its batches together, all of them in memory.
const (
	mostBatch       = 10_000
	mostConcurrency = 1_000
	mostAttempts    = 1_000_000
)

type loader struct {
	*file
	kinds  []publisher.Kind
	logger *slog.Logger
	routes *Routes
	topics map[string]bool
}

func (l *loader) root(node ast.Node) {
	var publishers []field
	for _, at := range l.fields(node, "the file", "topics", "publishers") {
		if at.name == "publishers" {
			publishers = l.fields(at.value, "publishers")
			continue
		}
		for _, topic := range l.fields(at.value, "topics") {
			l.named(topic, "topic")
			l.topics[topic.name] = true
			l.routes.Topics = append(l.routes.Topics, l.topic(topic))
		}
	}
	if len(l.topics) == 0 {
		l.wrong(node, "there are no topics: name at least one")
	}
	if len(publishers) == 0 {
		l.wrong(node, "there are no publishers: name at least one")
	}
	for _, at := range publishers {
		l.named(at, "publisher")
		l.routes.Publishers = append(l.routes.Publishers, l.publisher(at))
	}
}

// named notes a name that is none.
func (l *loader) named(at field, what string) {
	if strings.TrimSpace(at.name) == "" {
		l.wrong(at.key, "the name of a %s is %q: give it one, positions are kept under it", what, at.name)
	}
}

func (l *loader) topic(at field) publisher.Topic {
	t := publisher.Topic{Name: at.name}
	for _, at := range l.fields(at.value, "topic "+strconv.Quote(at.name), "event_types", "required_tags", "any_of_tags",
		"exact_tags", "campaign_prefix", "intents") {
		switch at.name {
		case "event_types":
			t.EventTypes = l.texts(at)
		case "required_tags":
			t.RequiredTags = l.texts(at)
		case "any_of_tags":
			t.AnyOfTags = l.texts(at)
		case "exact_tags":
			t.ExactTags = l.texts(at)
		case "campaign_prefix":
			t.CampaignPrefix = l.text(at)
		case "intents":
			for _, text := range l.texts(at) {
				if !slices.Contains([]journal.Intent{journal.ProjectionAndReplay, journal.ReplayOnly, journal.AuditOnly},
					journal.Intent(text)) {
					l.wrong(at.key, "intents holds %q, known are projection_and_replay, replay_only, audit_only", text)
				}
				t.Intents = append(t.Intents, journal.Intent(text))
			}
		}
	}
	return t
}

func (l *loader) publisher(at field) publisher.Publisher {
	p := publisher.Publisher{Name: at.name}
	var encoder publisher.Encoder
	var sink field
	subscribes := false
	what := "publisher " + strconv.Quote(at.name)
	for _, at := range l.fields(at.value, what, "topics", "sink", "format", "cloudevents", "start", "batch_size",
		"concurrency", "order", "timeout", "on_refusal", "attempts",
		"retry_base", "retry_max", "backoff_max") {
		switch at.name {
		case "topics":
			if subscribes = !none(at.value); subscribes {
				p.Topics = l.known(at)
			}
		case "sink":
			sink = at
		case "format":
			encoder.Format = choice(l.file, at, publisher.FormatEnvelope, publisher.FormatCloudEvents,
				publisher.FormatCloudEventsStructured, publisher.FormatRaw)
		case "cloudevents":
			for _, at := range l.fields(at.value, "cloudevents", "source", "type_prefix") {
				if at.name == "source" {
					encoder.Source = l.text(at)
				} else {
					encoder.TypePrefix = l.text(at)
				}
			}
		case "start":
			p.Start = l.start(at)
		case "batch_size":
			p.BatchSize = int(l.number(at, 1, mostBatch))
		case "concurrency":
			p.Concurrency = int(l.number(at, 1, mostConcurrency))
		case "attempts":
			p.Attempts = int(l.number(at, 1, mostAttempts))
		case "order":
			p.Order = choice(l.file, at, publisher.OrderCampaign, publisher.OrderGlobal)
		case "on_refusal":
			p.OnRefusal = choice(l.file, at, publisher.ParkCampaign, publisher.ParkEvent, publisher.Block)
		case "timeout":
			p.Timeout = l.duration(at)
		case "retry_base":
			p.RetryBase = l.duration(at)
		case "retry_max":
			p.RetryMax = l.duration(at)
		case "backoff_max":
			p.BackoffMax = l.duration(at)
		}
	}
	if p.RetryBase > p.RetryMax && p.RetryMax > 0 {
		l.wrong(at.key, "%s has retry_base %s, which must not be longer than retry_max, %s", what, p.RetryBase, p.RetryMax)
	}
	if !subscribes {
		l.wrong(at.key, "%s has no topics: name those that it publishes", what)
	}
	if sink.value == nil {
		l.wrong(at.key, "%s has no sink: give a URL, or a kind with its settings", what)
		return p
	}
	p.Sink = l.sink(p.Name, sink, encoder)
	return p
}

// known answers the names of topics.
func (l *loader) known(at field) []string {
	names := l.texts(at)
	for i, name := range names {
		switch {
		case !l.topics[name]:
			l.wrong(at.key, "there is no topic %q: the file has %s", name,
				strings.Join(slices.Sorted(maps.Keys(l.topics)), ", "))
		case slices.Contains(names[:i], name):
			l.wrong(at.key, "topic %q is named twice: leave one of them out", name)
		}
	}
	return names
}

// start reads where a new pair starts.
func (l *loader) start(at field) publisher.Start {
	text := l.text(at)
	if n, ok := strings.CutPrefix(text, "position "); ok {
		if position, err := strconv.ParseInt(strings.TrimSpace(n), 10, 64); err == nil && position >= 0 {
			return publisher.Start{After: position}
		}
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return publisher.Start{At: t}
	}
	switch text {
	case "beginning":
		return publisher.Start{}
	case "end":
		return publisher.Start{End: true}
	}
	l.wrong(at.key,
		`start is %q, it may be "beginning", "end", "position 42" (what comes after it) `+
			`or a time such as 2026-01-31T08:00:00Z`, text)
	return publisher.Start{}
}

// sink opens a sink, which is written as a URL, or as a kind, or a URL, with settings.
func (l *loader) sink(name string, at field, encoder publisher.Encoder) publisher.Sink {
	before := len(l.mistakes)
	l.expand(at.value)
	settings := publisher.Settings{Publisher: name, Encoder: encoder, Logger: l.logger.With("publisher", name)}
	var kind, address string
	var rest []field // the sink's own
	if _, ok := at.value.(ast.MapNode); ok {
		for _, at := range l.fields(at.value, "sink") {
			switch at.name {
			case "kind":
				kind = l.text(at)
			case "url":
				address = l.text(at)
			default:
				rest = append(rest, at)
			}
		}
	} else {
		address = l.text(at)
	}
	settings.Decode = func(into any) error { return l.decode(rest, "publisher "+strconv.Quote(name), into) }
	if len(l.mistakes) > before {
		return nil
	}
	sink, err := open(l.kinds, kind, address, settings)
	for _, err := range each(err) {
		if !errors.Is(err, errNoted) {
			l.wrong(at.key, "publisher %q: %w", name, err)
		}
	}
	return sink
}

// open finds the kind and opens the sink.
func open(kinds []publisher.Kind, name, address string, settings publisher.Settings) (publisher.Sink, error) {
	if address != "" {
		u, err := url.Parse(address)
		if err != nil || u.Scheme == "" { // the parser's error shows the URL, and with it a password
			return nil, errors.New("the sink's URL cannot be read: it is written like kind://host/path")
		}
		settings.URL = u
		if name == "" {
			name = u.Scheme
		}
	}
	var known []string
	for _, kind := range kinds {
		if kind.Name == name || slices.Contains(kind.Schemes, name) {
			sink, err := kind.Open(settings)
			if err != nil { // what stands beside it may be a nil pointer of the kind's, which is a sink that is not nil
				return nil, err
			}
			return sink, nil
		}
		known = append(known, kind.Name)
	}
	if name == "" {
		return nil, errors.New("the sink has neither a kind nor a URL")
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("there is no kind of sink %q: this program has none, add kinds of pkg/sink to its "+
			"worker.Options.Sinks", name)
	}
	return nil, fmt.Errorf("there is no kind of sink %q: known are %s", name, strings.Join(known, ", "))
}

// FromURL is the simple case: all events, or those of some types, go to one sink, as publisher
// "default" of topic "events".
func FromURL(
	address string, types []string, format string, kinds []publisher.Kind, logger *slog.Logger,
) (*Routes, error) {
	settings := publisher.Settings{
		Publisher: "default", Encoder: publisher.Encoder{Format: publisher.Format(format)},
		Logger: logger.With("publisher", "default"),
		Decode: func(any) error { return nil },
	}
	if err := settings.Encoder.Check(); err != nil {
		return nil, err
	}
	sink, err := open(kinds, "", address, settings)
	if err != nil {
		return nil, err
	}
	return &Routes{
		Topics:     []publisher.Topic{{Name: "events", Filter: publisher.Filter{EventTypes: types}}},
		Publishers: []publisher.Publisher{{Name: "default", Sink: sink, Topics: []string{"events"}}},
	}, nil
}

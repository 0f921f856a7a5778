// Package publishing reads what to publish where: from a YAML file (docs/guides/publishing.md describes
// it), or, in the simple case, from a URL. All mistakes are reported together, each with its line.
package publishing

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/tidemark-go/tidemark/internal/bom"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Routes is the topics and publishers of a configuration.
type Routes struct {
	Topics     []publisher.Topic
	Publishers []publisher.Publisher
}

// Close closes the sinks. Call it after publishing has ended.
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

// Load reads a file. It opens the sinks, which do not connect yet.
func Load(path string, kinds []publisher.Kind, logger *slog.Logger) (*Routes, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("publishers: %w: name a YAML file that says what is published where", err)
	}
	l := &loader{file: &file{name: path}, kinds: kinds, logger: logger, routes: &Routes{}, topics: map[string]bool{}}
	// report duplicate keys together with all other mistakes
	parsed, err := parser.ParseBytes(bom.Trim(content), 0, parser.AllowDuplicateMapKey())
	switch syntax := yaml.Error(nil); {
	case errors.As(err, &syntax) && syntax.GetToken() != nil:
		l.mistakes = append(l.mistakes, mistake{syntax.GetToken().Position.Line, fmt.Errorf("it is not YAML (a text that "+
			"ends in a colon, or holds one before a space, stands in quotes): %s", syntax.GetMessage())})
	case err != nil:
		l.wrong(nil, "it is not YAML: %w", err)
	case len(parsed.Docs) == 0 || isEmpty(parsed.Docs[0].Body):
		l.wrong(nil, "it is empty: it needs topics and publishers")
	default:
		l.root(parsed.Docs[0].Body)
	}
	if err := l.err(); err != nil {
		return nil, errors.Join(fmt.Errorf("publishers: %w", err), l.routes.Close())
	}
	return l.routes, nil
}

type loader struct {
	*file
	kinds  []publisher.Kind
	logger *slog.Logger
	routes *Routes
	topics map[string]bool
}

func (l *loader) root(node ast.Node) {
	var root struct {
		Topics     field `yaml:"topics"`
		Publishers field `yaml:"publishers"`
	}
	l.decode(l.fields(node, "the file"), "the file", "", &root)
	for _, at := range l.fields(root.Topics.value, "topics") {
		l.named(at, "topic")
		l.topics[at.name] = true
		l.routes.Topics = append(l.routes.Topics, l.topic(at))
	}
	for _, at := range l.fields(root.Publishers.value, "publishers") {
		l.named(at, "publisher")
		l.routes.Publishers = append(l.routes.Publishers, l.publisher(at))
	}
	if len(l.routes.Topics) == 0 {
		l.wrong(node, "there are no topics: name at least one")
	}
	if len(l.routes.Publishers) == 0 {
		l.wrong(node, "there are no publishers: name at least one")
	}
}

func (l *loader) named(at field, what string) {
	if strings.TrimSpace(at.name) == "" {
		l.wrong(at.key, "the name of a %s is %q: give it one, positions are kept under it", what, at.name)
	}
}

func (l *loader) topic(at field) publisher.Topic {
	var s struct {
		publisher.Filter
		Intents []string `yaml:"intents" one:"projection_and_replay replay_only audit_only"`
	}
	what := "topic " + strconv.Quote(at.name)
	l.decode(l.fields(at.value, what), what, "", &s)
	for _, text := range s.Intents {
		s.Filter.Intents = append(s.Filter.Intents, event.Intent(text))
	}
	return publisher.Topic{Name: at.name, Filter: s.Filter}
}

type cloudEvents struct {
	Source     string `yaml:"source"`
	TypePrefix string `yaml:"type_prefix"`
}

// publisherSettings is a publisher in a file. The limits exist because a round holds up to four
// times the events of its concurrent batches in memory.
type publisherSettings struct {
	Topics      field         `yaml:"topics"`
	Sink        field         `yaml:"sink"`
	Format      string        `yaml:"format" one:"envelope cloudevents raw"`
	CloudEvents cloudEvents   `yaml:"cloudevents"`
	Start       field         `yaml:"start"`
	BatchSize   int           `yaml:"batch_size" most:"10000"`
	Concurrency int           `yaml:"concurrency" most:"1000"`
	Order       string        `yaml:"order" one:"campaign global"`
	Timeout     time.Duration `yaml:"timeout"`
	OnRefusal   string        `yaml:"on_refusal" one:"park_campaign park_event block"`
	Attempts    int           `yaml:"attempts" most:"1000000"`
	RetryBase   time.Duration `yaml:"retry_base"`
	RetryMax    time.Duration `yaml:"retry_max"`
	BackoffMax  time.Duration `yaml:"backoff_max"`
	OpenSealed  bool          `yaml:"open_sealed"`
}

func (l *loader) publisher(at field) publisher.Publisher {
	var s publisherSettings
	what := "publisher " + strconv.Quote(at.name)
	l.decode(l.fields(at.value, what), what, "", &s)
	p := publisher.Publisher{
		Name: at.name, Topics: l.known(s.Topics), Start: l.start(s.Start),
		BatchSize: s.BatchSize, Concurrency: s.Concurrency, Order: publisher.Order(s.Order), Timeout: s.Timeout,
		OnRefusal: publisher.Policy(s.OnRefusal), Attempts: s.Attempts,
		RetryBase: s.RetryBase, RetryMax: s.RetryMax, BackoffMax: s.BackoffMax, OpenSealed: s.OpenSealed,
	}
	if s.Topics.value == nil {
		l.wrong(at.key, "%s has no topics: name those that it publishes", what)
	}
	if s.Sink.value == nil {
		l.wrong(at.key, "%s has no sink: give a URL, or a kind with its settings", what)
		return p
	}
	p.Sink = l.sink(p.Name, s.Sink, publisher.Encoder{
		Format: publisher.Format(s.Format), Source: s.CloudEvents.Source, TypePrefix: s.CloudEvents.TypePrefix,
	})
	return p
}

// known returns the names of topics and records unknown or repeated ones.
func (l *loader) known(at field) []string {
	if at.value == nil {
		return nil
	}
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

func (l *loader) start(at field) publisher.Start {
	if at.value == nil {
		return publisher.Start{}
	}
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

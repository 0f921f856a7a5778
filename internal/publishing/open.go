package publishing

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Configured reads the file or URL in settings; nil without one. It opens the sinks, but none connects.
func Configured(settings config.Publishing, kinds []publisher.Kind, logger *slog.Logger) (*Routes, error) {
	switch {
	case settings.Publishers != "" && settings.PublishURL != "":
		return nil, errors.New("TIDEMARK_PUBLISHERS and TIDEMARK_PUBLISH_URL are both set: use the file, or the URL for " +
			"the simple case")
	case settings.Publishers != "":
		return Load(settings.Publishers, kinds, logger)
	case settings.PublishURL == "":
		return nil, nil
	}
	// The simple case: all events go to one sink, as envelopes.
	sink, err := open(kinds, "", settings.PublishURL, publisher.Settings{
		Publisher: "default", Logger: logger.With("publisher", "default"),
		Decode: func(any) error { return nil },
	})
	if err != nil {
		return nil, fmt.Errorf("TIDEMARK_PUBLISH_URL: %w", err)
	}
	return &Routes{
		Topics:     []publisher.Topic{{Name: "events"}},
		Publishers: []publisher.Publisher{{Name: "default", Sink: sink, Topics: []string{"events"}}},
	}, nil
}

// errNoted is returned by Decode if the mistakes are already recorded, each at its line.
var errNoted = errors.New("the settings are invalid")

// sink opens a sink that is written as a URL, or as a kind or URL with settings.
func (l *loader) sink(name string, at field, encoder publisher.Encoder) publisher.Sink {
	before, what := len(l.mistakes), "publisher "+strconv.Quote(name)
	l.expand(at.value)
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
	if len(l.mistakes) > before {
		return nil
	}
	sink, err := open(l.kinds, kind, address, publisher.Settings{
		Publisher: name, Encoder: encoder, Logger: l.logger.With("publisher", name),
		Decode: func(into any) error {
			if l.decode(rest, "the sink of "+what, what+": ", into); len(l.mistakes) > before {
				return errNoted
			}
			return nil
		},
	})
	if err == nil {
		return sink
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line != errNoted.Error() {
			l.wrong(at.key, "%s: %s", what, line)
		}
	}
	return nil
}

func open(kinds []publisher.Kind, name, address string, settings publisher.Settings) (publisher.Sink, error) {
	if address != "" {
		u, err := url.Parse(address)
		if err != nil || u.Scheme == "" { // the parser's error shows the URL, which may have a password
			return nil, errors.New("the sink's URL cannot be read: write it like kind://host/path")
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
			if err != nil { // do not return the sink too: a nil pointer in it would make it non-nil
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

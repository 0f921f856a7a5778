package publishing

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Configured reads what settings name; nil if they name nothing. Sinks are opened, and none of them connects yet.
func Configured(settings config.Publishing, kinds []publisher.Kind, logger *slog.Logger) (*Routes, error) {
	switch {
	case settings.Publishers != "" && settings.PublishURL != "":
		return nil, errors.New("TIDEMARK_PUBLISHERS and TIDEMARK_PUBLISH_URL are both set: use the file, or the URL for " +
			"the simple case")
	case settings.Publishers != "" && settings.PublishEventTypes != "":
		return nil, fmt.Errorf("TIDEMARK_PUBLISH_EVENT_TYPES is %q, which goes with TIDEMARK_PUBLISH_URL alone: in the "+
			"file that TIDEMARK_PUBLISHERS names, set event_types of a topic", settings.PublishEventTypes)
	case settings.Publishers != "" && settings.PublishFormat != "" &&
		settings.PublishFormat != string(publisher.FormatEnvelope):
		return nil, fmt.Errorf("TIDEMARK_PUBLISH_FORMAT is %q, which goes with TIDEMARK_PUBLISH_URL alone: in the file "+
			"that TIDEMARK_PUBLISHERS names, set format of a publisher", settings.PublishFormat)
	case settings.Publishers != "":
		return Load(settings.Publishers, kinds, logger)
	case settings.PublishURL != "":
		var types []string
		for name := range strings.SplitSeq(settings.PublishEventTypes, ",") {
			if name = strings.TrimSpace(name); name != "" {
				types = append(types, name)
			}
		}
		routes, err := FromURL(settings.PublishURL, types, settings.PublishFormat, kinds, logger)
		if err != nil {
			return nil, fmt.Errorf("TIDEMARK_PUBLISH_URL: %w", err)
		}
		return routes, nil
	}
	return nil, nil
}

// Publisher finds a publisher by its name.
func (r *Routes) Publisher(name string) (publisher.Publisher, error) {
	return named(r.Publishers, "publisher", name, func(p publisher.Publisher) string { return p.Name })
}

// Topic finds a topic by its name.
func (r *Routes) Topic(name string) (publisher.Topic, error) {
	return named(r.Topics, "topic", name, func(t publisher.Topic) string { return t.Name })
}

func named[T any](all []T, what, name string, nameOf func(T) string) (found T, err error) {
	var names []string
	for _, one := range all {
		if nameOf(one) == name {
			return one, nil
		}
		names = append(names, nameOf(one))
	}
	return found, fmt.Errorf("there is no %s %q: there are %s", what, name, strings.Join(names, ", "))
}

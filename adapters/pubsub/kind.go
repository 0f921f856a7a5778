package pubsub

import (
	"strings"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Kind is the kind "pubsub": pubsub://project/topic, or settings. Credentials are those of the environment.
func Kind() publisher.Kind {
	return publisher.Kind{Name: "pubsub", Open: func(s publisher.Settings) (publisher.Sink, error) {
		var own Config
		if s.URL != nil {
			own.Project, own.Topic = s.URL.Host, strings.TrimPrefix(s.URL.Path, "/")
		}
		if err := setting.Read(s, &own); err != nil {
			return nil, err
		}
		own.Name, own.Encoder = s.Publisher, s.Encoder
		return New(own)
	}}
}

package pubsub

import (
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Kind is the kind "pubsub": pubsub://project/topic, or settings. Credentials are those of the
// environment, unless credentials_file names others.
func Kind() publisher.Kind {
	return publisher.Kind{Name: "pubsub", Open: func(s publisher.Settings) (publisher.Sink, error) {
		var settings struct {
			Project         string        `yaml:"project"`
			Topic           string        `yaml:"topic"`
			Endpoint        string        `yaml:"endpoint"`
			Emulator        string        `yaml:"emulator"`
			CredentialsFile string        `yaml:"credentials_file"`
			SendTimeout     time.Duration `yaml:"send_timeout"`
		}
		if s.URL != nil {
			settings.Project, settings.Topic = s.URL.Host, strings.TrimPrefix(s.URL.Path, "/")
		}
		if err := setting.Read(s, &settings); err != nil {
			return nil, err
		}
		return New(Config{
			Name: s.Publisher, Project: settings.Project, Topic: settings.Topic, Endpoint: settings.Endpoint,
			Emulator:        settings.Emulator,
			CredentialsFile: settings.CredentialsFile, SendTimeout: settings.SendTimeout, Encoder: s.Encoder,
		})
	}}
}

package redis

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9/logging"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Kind is the kind "redis": redis://user:password@host:6379/0?stream=events.{topic}, with rediss://
// for TLS, or settings.
func Kind() publisher.Kind {
	return publisher.Kind{
		Name: "redis", Schemes: []string{"rediss"},
		Open: func(s publisher.Settings) (publisher.Sink, error) {
			var own struct {
				Config      `yaml:",inline"`
				setting.TLS `yaml:",inline"`
			}
			var err error
			if s.URL != nil {
				own.Servers = setting.Servers(s.URL)
				if path := strings.Trim(s.URL.Path, "/"); path != "" {
					if own.Database, err = strconv.Atoi(path); err != nil {
						return nil, fmt.Errorf("the URL's path is %q: it is the number of a database, and the stream a parameter, "+
							"?stream=", path)
					}
				}
				own.User = s.URL.User.Username()
				own.Password, _ = s.URL.User.Password()
				own.On = s.URL.Scheme == "rediss"
			}
			if err := setting.Read(s, &own); err != nil {
				return nil, err
			}
			if own.Config.TLS, err = own.TLS.Config(); err != nil {
				return nil, err
			}
			logging.Disable() // the client's own log, which would go past the worker's: the relay says what fails
			own.Name, own.Encoder = s.Publisher, s.Encoder
			return New(own.Config)
		},
	}
}

package redis

import (
	"fmt"
	"strconv"
	"strings"
	"time"

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
			var settings struct {
				Servers         []string      `yaml:"servers"`
				Cluster         bool          `yaml:"cluster"`
				Database        int           `yaml:"database"`
				Stream          string        `yaml:"stream"`
				MaxLength       int           `yaml:"max_length"`
				MaxMessageBytes int           `yaml:"max_message_bytes"`
				User            string        `yaml:"user"`
				Password        string        `yaml:"password"`
				TLS             bool          `yaml:"tls"`
				CA              string        `yaml:"ca"`
				Cert            string        `yaml:"cert"`
				Key             string        `yaml:"key"`
				ServerName      string        `yaml:"server_name"`
				ConnectTimeout  time.Duration `yaml:"connect_timeout"`
				MinReplicas     int           `yaml:"min_replicas"`
				ReplicaTimeout  time.Duration `yaml:"replica_timeout"`
			}
			if s.URL != nil {
				if s.URL.Host != "" {
					settings.Servers = strings.Split(s.URL.Host, ",")
				}
				if path := strings.Trim(s.URL.Path, "/"); path != "" {
					database, err := strconv.Atoi(path)
					if err != nil {
						return nil, fmt.Errorf("the URL's path is %q: it is the number of a database, and the stream a parameter, "+
							"?stream=", path)
					}
					settings.Database = database
				}
				settings.User = s.URL.User.Username()
				settings.Password, _ = s.URL.User.Password()
				settings.TLS = s.URL.Scheme == "rediss"
			}
			if err := setting.Read(s, &settings); err != nil {
				return nil, err
			}
			tls, err := setting.TLS{
				On: settings.TLS, CA: settings.CA, Cert: settings.Cert, Key: settings.Key,
				ServerName: settings.ServerName,
			}.Config()
			if err != nil {
				return nil, err
			}
			logging.Disable() // the client's own log, which would go past the worker's: the relay says what fails
			return New(Config{
				Name: s.Publisher, Servers: settings.Servers, Cluster: settings.Cluster, Database: settings.Database,
				User: settings.User, Password: settings.Password, TLS: tls,
				Stream: settings.Stream, MaxLength: settings.MaxLength, MaxMessageBytes: settings.MaxMessageBytes,
				ConnectTimeout: settings.ConnectTimeout,
				MinReplicas:    settings.MinReplicas, ReplicaTimeout: settings.ReplicaTimeout, Encoder: s.Encoder,
			})
		},
	}
}

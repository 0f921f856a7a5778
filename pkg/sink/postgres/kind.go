package postgres

import (
	"net/url"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// settings are the sink's own. All other parameters of the URL are for the connection.
type settings struct {
	Table       string `yaml:"table"`
	NoCreate    bool   `yaml:"no_create"`
	Connections int    `yaml:"connections"`
}

// Kind is the kind "postgres": postgres://user:password@host:5432/database?table=events, or settings.
func Kind() publisher.Kind {
	return publisher.Kind{
		Name: "postgres", Schemes: []string{"postgresql"},
		Open: func(s publisher.Settings) (publisher.Sink, error) {
			var own settings
			address := ""
			if s.URL != nil {
				connection := *s.URL
				s.URL, connection.RawQuery = divide(s.URL)
				address = connection.String()
			}
			if err := setting.Read(s, &own); err != nil {
				return nil, err
			}
			return New(Config{
				Name: s.Publisher, URL: address, Table: own.Table, NoCreate: own.NoCreate,
				Connections: own.Connections, Encoder: s.Encoder,
			})
		},
	}
}

// divide answers the URL with the sink's own parameters alone, and all others.
func divide(address *url.URL) (own *url.URL, others string) {
	ownQuery, otherQuery := url.Values{}, url.Values{}
	for name, values := range address.Query() {
		switch name {
		case "table", "no_create", "connections":
			ownQuery[name] = values
		default:
			otherQuery[name] = values
		}
	}
	divided := *address
	divided.RawQuery = ownQuery.Encode()
	return &divided, otherQuery.Encode()
}

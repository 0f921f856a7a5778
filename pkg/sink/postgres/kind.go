package postgres

import (
	"net/url"
	"slices"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Kind is the kind "postgres": postgres://user:password@host:5432/database?table=events, or settings.
// Parameters of the URL that are no settings are for the connection.
func Kind() publisher.Kind {
	return publisher.Kind{
		Name: "postgres", Schemes: []string{"postgresql"},
		Open: func(s publisher.Settings) (publisher.Sink, error) {
			var own Config
			if s.URL != nil {
				known, _ := setting.Fields(&own)
				var address *url.URL
				s.URL, address = setting.Divide(s.URL, func(name string) bool { return slices.Contains(known, name) })
				own.URL = address.String()
			}
			if err := setting.Read(s, &own); err != nil {
				return nil, err
			}
			own.Name, own.Encoder = s.Publisher, s.Encoder
			return New(own)
		},
	}
}

package postgres

import "github.com/tidemark-go/tidemark/pkg/publisher"

// Kind is the kind "postgres": postgres://user:password@host:5432/database?table=events, or settings.
// All parameters of the URL but the table are for the connection and its pool.
func Kind() publisher.Kind {
	return publisher.Kind{
		Name: "postgres", Schemes: []string{"postgresql"},
		Open: func(s publisher.Settings) (publisher.Sink, error) {
			var own Config
			if s.URL != nil {
				address, query := *s.URL, s.URL.Query()
				own.Table = query.Get("table")
				query.Del("table")
				address.RawQuery = query.Encode()
				own.URL = address.String()
			}
			if err := s.Decode(&own); err != nil {
				return nil, err
			}
			own.Name, own.Encoder = s.Publisher, s.Encoder
			return New(own)
		},
	}
}

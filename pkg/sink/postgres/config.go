package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a sink.
type Config struct {
	Name string // default "postgres"
	URL  string // required, postgres://user:password@host:5432/database
	// default "published_events"; "schema.table" if it is not in the search path
	Table   string `yaml:"table"`
	Encoder publisher.Encoder
}

const (
	defaultTable = "published_events"
	maxName      = 63 // longest name in Postgres, in bytes
)

func (cfg *Config) fill() (pool *pgxpool.Config, table string, err error) {
	cfg.Name = cmp.Or(cfg.Name, "postgres")
	cfg.Table = cmp.Or(cfg.Table, defaultTable)
	errs := []error{cfg.Encoder.Check()}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	name := pgx.Identifier(strings.Split(cfg.Table, "."))
	for _, part := range name {
		if part == "" || len(part) > maxName || len(name) > 2 || strings.Contains(part, "\x00") {
			wrong("table is %q: write table or schema.table, each of 1 to %d bytes", cfg.Table, maxName)
			break
		}
	}
	if cfg.URL == "" {
		wrong("url is missing: write postgres://user:password@host:5432/database")
	} else if pool, err = session.Parse(cfg.URL); err != nil { // its errors hide the password
		wrong("url: %w: write postgres://user:password@host:5432/database", err)
	} else {
		session.Encoding(pool.ConnConfig)
		if pool.ConnConfig.RuntimeParams["application_name"] == "" {
			pool.ConnConfig.RuntimeParams["application_name"] = "tidemark " + cfg.Name
		}
	}
	return pool, name.Sanitize(), errors.Join(errs...)
}

// Kind is the kind "postgres": postgres://user:password@host:5432/database?table=events, or
// settings. All other parameters of the URL are for the connection and its pool.
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

package devpg

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
)

// urlEnv names the server to use instead of a private one.
const urlEnv = "TIDEMARK_DATABASE_URL"

// Choose returns an error unless exactly one of a URL and --dev is given. A worker whose URL was not
// mounted must not run on an empty private server, and --dev must not run on a database of others.
func Choose(url string, dev bool) error {
	switch {
	case url == "" && !dev:
		return errors.New(urlEnv + " is not set: set it to the database's URL. For development, --dev starts a private " +
			"Postgres under .tidemark/")
	case url != "" && dev:
		return errors.New("--dev starts a private Postgres, and " + urlEnv + " names another database: leave out one of them")
	}
	return nil
}

// URL returns the database for a program: TIDEMARK_DATABASE_URL, or with dev the checkout's private
// server, which runs until closeServer is called. The caller calls closeServer, which is never nil
// when err is nil. Only programs call URL, because it reads the environment.
func URL(ctx context.Context, logger *slog.Logger, dev bool) (url string, closeServer func() error, err error) {
	url = strings.TrimSpace(os.Getenv(urlEnv))
	if err := Choose(url, dev); err != nil {
		return "", nil, err
	}
	if url != "" {
		return url, func() error { return nil }, nil
	}
	return Serve(ctx, logger)
}

// Serve starts the checkout's private server, or uses the running one, until closeServer is called.
func Serve(ctx context.Context, logger *slog.Logger) (url string, closeServer func() error, err error) {
	server, err := Open(ctx, Config{Logger: logger})
	if err != nil {
		return "", nil, err
	}
	return server.URL(), server.Close, nil
}

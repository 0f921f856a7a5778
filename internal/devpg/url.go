package devpg

import (
	"context"
	"log/slog"
	"os"
)

// urlEnv names the server to use instead of a private one.
const urlEnv = "TIDEMARK_DATABASE_URL"

// URL answers the database that a command works on: TIDEMARK_DATABASE_URL when it is set, else the
// checkout's private server, which is started for as long as the command needs it. The caller calls
// closeServer when it is done; it is never nil when err is nil. Only commands call URL: it reads
// the environment.
func URL(ctx context.Context, logger *slog.Logger) (url string, closeServer func() error, err error) {
	if url := os.Getenv(urlEnv); url != "" {
		return url, func() error { return nil }, nil
	}
	server, err := Open(ctx, Config{Logger: logger})
	if err != nil {
		return "", nil, err
	}
	return server.URL(), server.Close, nil
}

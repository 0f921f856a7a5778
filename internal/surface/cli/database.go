package cli

import (
	"context"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/devpg"
)

// URLVariable names the database of all commands.
const URLVariable = "TIDEMARK_DATABASE_URL"

const devFlag = "dev"

// Server starts a private Postgres, which runs until stop is called. stop is never nil when err is nil.
type Server func(context.Context, *slog.Logger) (url string, stop func() error, err error)

// Database returns the database of a command: url, or with dev the private one that start starts. It
// returns a [UsageError] unless exactly one of both is given. stop is never nil when err is nil.
func Database(
	ctx context.Context, logger *slog.Logger, url string, dev bool, start Server,
) (_ string, stop func() error, err error) {
	url = strings.TrimSpace(url)
	if err := devpg.Choose(url, dev); err != nil {
		return "", nil, &UsageError{err}
	}
	if dev {
		return start(ctx, logger)
	}
	return url, func() error { return nil }, nil
}

// Dev reports whether the command line of cmd has --dev, which [Run] adds to all commands.
func Dev(cmd *cobra.Command) bool {
	flag := cmd.Flag(devFlag)
	return flag != nil && flag.Value.String() == "true"
}

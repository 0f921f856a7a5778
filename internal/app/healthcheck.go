package app

import (
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

const healthcheckTimeout = 3 * time.Second

// newHealthcheck returns the command that asks a worker on this machine whether it is ready, for
// containers without a shell.
func newHealthcheck() *cobra.Command {
	cmd := &cobra.Command{
		Use: "healthcheck", Short: "Ask the worker at --http-addr whether it is ready",
		Args: cli.NoArgs,
	}
	set := config.NewSet(cmd.Flags())
	var addr string
	config.HTTPAddr(set, &addr)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := set.Finish(); err != nil {
			return &cli.UsageError{Err: err}
		}
		client := http.Client{Timeout: healthcheckTimeout}
		request, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, "http://"+addr+"/readyz", nil)
		if err != nil {
			return cli.Exitf(cli.ExitFailed, "ask the worker: %w", err)
		}
		response, err := client.Do(request)
		if err != nil {
			return cli.Exitf(cli.ExitFailed, "ask the worker: %w", err)
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			reason, _ := io.ReadAll(io.LimitReader(response.Body, 256)) // only for the message
			return cli.Exitf(cli.ExitFailed, "the worker is not ready: %s: %s", response.Status, reason)
		}
		return nil
	}
	return cmd
}

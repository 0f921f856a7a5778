// Package migrate has the commands that bring the schema "tidemark" up, down, and tell where it stands.
package migrate

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tidemark-go/tidemark/internal/config"
)

// Main runs the command line of the process and returns the exit code for [os.Exit].
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	for _, stray := range config.Stray(os.Environ()) {
		fmt.Fprintln(os.Stderr, "migrate:", stray)
	}
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "migrate:", err)
		return 1
	}
	return 0
}

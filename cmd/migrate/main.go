// Command migrate brings the schema "tidemark" up, down, and tells where it stands.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tidemark-go/tidemark/internal/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	for _, stray := range config.Stray(os.Environ()) {
		fmt.Fprintln(os.Stderr, "migrate:", stray)
	}
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "migrate:", err)
		os.Exit(1)
	}
}

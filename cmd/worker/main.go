// Command worker keeps the read models of a folder of SQL files up to date and publishes events to
// sinks. Run as many replicas as you like.
package main

import (
	"os"

	"github.com/tidemark-go/tidemark/internal/sinks"
	"github.com/tidemark-go/tidemark/pkg/worker"
)

func main() {
	os.Exit(worker.Main(worker.Options{Sinks: sinks.Kinds()}))
}

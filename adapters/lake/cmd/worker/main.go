// Command worker is the stock worker plus the lake sink.
package main

import (
	"os"

	"github.com/tidemark-go/tidemark/adapters/lake"
	"github.com/tidemark-go/tidemark/internal/sinks"
	"github.com/tidemark-go/tidemark/pkg/worker"
)

func main() {
	os.Exit(worker.Main(worker.Options{Sinks: append(sinks.Kinds(), lake.Kind())}))
}

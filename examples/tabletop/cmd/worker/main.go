// Command worker keeps the tabletop read models up to date. It is the stock worker with compiled-in
// projections: the same settings, flags and signals.
package main

import (
	"fmt"
	"os"

	"github.com/tidemark-go/tidemark/examples/tabletop"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/sink/log"
	"github.com/tidemark-go/tidemark/pkg/sink/webhook"
	"github.com/tidemark-go/tidemark/pkg/worker"
)

func main() {
	projections, err := tabletop.Projections()
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	catalogue, err := tabletop.Catalogue()
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(worker.Main(worker.Options{
		Short:       "Keep the tabletop read models up to date",
		Projections: projections,
		Catalogue:   catalogue,
		Sinks:       []publisher.Kind{webhook.Kind(), log.Kind()},
	}))
}

// Command worker keeps the tabletop read models up to date. It is the stock worker with projections compiled in: the same settings, flags and signals.
package main

import (
	"fmt"
	"os"

	"github.com/tidemark-go/tidemark/examples/tabletop"
	"github.com/tidemark-go/tidemark/internal/app"
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
	os.Exit(app.Main(app.Options{Name: "worker", Short: "Keep the tabletop read models up to date", Projections: projections, Catalogue: catalogue}))
}

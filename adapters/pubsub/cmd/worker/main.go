// Command worker is the worker that can also publish to Google Pub/Sub.
package main

import (
	"os"

	"github.com/tidemark-go/tidemark/adapters/pubsub"
	"github.com/tidemark-go/tidemark/internal/app"
)

func main() {
	opts := app.Options{Name: "worker", Short: "Keep read models up to date with the journal"}
	opts.Sinks = append(opts.Sinks, pubsub.Kind())
	os.Exit(app.Main(opts))
}

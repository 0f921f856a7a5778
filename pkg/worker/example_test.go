package worker_test

import (
	"os"

	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/sink/webhook"
	"github.com/tidemark-go/tidemark/pkg/worker"
)

func ExampleMain() {
	os.Exit(worker.Main(worker.Options{
		Projections: []projection.Projection{sessions()},
		Sinks:       []publisher.Kind{webhook.Kind()},
	}))
}

// Command worker is the stock worker plus archives in S3.
package main

import (
	"os"

	"github.com/tidemark-go/tidemark/adapters/s3"
	"github.com/tidemark-go/tidemark/internal/sinks"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/worker"
)

func main() {
	os.Exit(worker.Main(worker.Options{Sinks: sinks.Kinds(), Archives: archive.Kinds{"s3": s3.Open}}))
}

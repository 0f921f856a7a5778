// Command tidemark has the operators' commands with archives in S3.
package main

import (
	"os"

	"github.com/tidemark-go/tidemark/adapters/s3"
	"github.com/tidemark-go/tidemark/internal/surface/command"
	"github.com/tidemark-go/tidemark/pkg/archive"
)

func main() {
	os.Exit(command.Main(command.Options{Name: "tidemark", Archives: archive.Kinds{"s3": s3.Open}}))
}

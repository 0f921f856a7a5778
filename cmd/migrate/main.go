// Command migrate brings the schema "tidemark" up, down, and tells where it stands.
package main

import (
	"os"

	"github.com/tidemark-go/tidemark/internal/surface/migrate"
)

func main() { os.Exit(migrate.Main()) }

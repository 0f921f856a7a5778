// Command migrate migrates the schema "tidemark" up or down, and prints its version.
package main

import (
	"os"

	"github.com/tidemark-go/tidemark/internal/surface/migrate"
)

func main() { os.Exit(migrate.Main()) }

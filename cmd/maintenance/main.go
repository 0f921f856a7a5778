// Command maintenance has the operators' commands: they look after a Tidemark database. See docs/maintenance.md.
package main

import (
	"os"

	"github.com/tidemark-go/tidemark/internal/surface/command"
)

func main() { os.Exit(command.Main()) }

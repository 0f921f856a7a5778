// Command maintenance has the operators' commands of tidemark alone, without the clients of brokers. It also takes the
// flags of runbooks, such as -outbox-report -json.
package main

import (
	"os"

	"github.com/tidemark-go/tidemark/internal/sinks/clientless"
	"github.com/tidemark-go/tidemark/internal/surface/command"
)

func main() { os.Exit(command.Main(command.Options{Name: "maintenance", Sinks: clientless.Kinds()})) }

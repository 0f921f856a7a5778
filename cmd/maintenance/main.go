// Command maintenance offers only the operators' commands of tidemark, without the clients of
// brokers. It also accepts the flags that runbooks use, such as -outbox-report -json.
package main

import (
	"os"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/surface/command"
)

func main() { os.Exit(command.Main(command.Options{Name: "maintenance", Server: devpg.Serve})) }

// Command worker keeps the read models of a folder of SQL files up to date, and publishes events to sinks. Run as many of it as you like.
package main

import (
	"os"

	"github.com/tidemark-go/tidemark/internal/app"
)

func main() {
	os.Exit(app.Main(app.Options{Name: "worker", Short: "Keep read models up to date with the journal, and publish it"}))
}

// Command loadgen appends events of many campaigns at a steady rate to the database that
// TIDEMARK_DATABASE_URL names, or with -dev to the private one of the checkout.
//
//	go run ./examples/tabletop/cmd/loadgen -rate 2000 -seconds 30 -campaigns 1000 -seed 42
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tidemark-go/tidemark/examples/tabletop"
)

func main() {
	rate := flag.Float64("rate", 1000, "events a second; 0: as fast as it goes")
	seconds := flag.Float64("seconds", 30, "how long; 0: until interrupted")
	campaigns := flag.Int("campaigns", 1000, "tables that play at once")
	seed := flag.Uint64("seed", uint64(time.Now().Unix()),
		"the same seed plays the same; a seed that was played before appends nothing new")
	lanes := flag.Int("lanes", 16, "appends at the same time")
	dev := flag.Bool("dev", false, "use a private Postgres under .tidemark/, started if necessary")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	generator := tabletop.NewGenerator(tabletop.GeneratorConfig{Seed: *seed, Campaigns: *campaigns})
	err := run(ctx, *dev, tabletop.LoadConfig{Generator: generator, Rate: *rate, Lanes: *lanes},
		time.Duration(*seconds*float64(time.Second)))
	if err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		os.Exit(1)
	}
}

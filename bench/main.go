// Command bench compares Tidemark with its alternatives, on one Postgres and in one run.
//
// It starts a private Postgres, or uses the server that TIDEMARK_BENCH_DATABASE_URL names, and
// creates its own databases there. docs/contributing/benchmarks.md explains each figure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
)

// gcPercent is the worker's initial value (internal/app), for every side.
const gcPercent = 400

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "run only these measures, comma-separated: "+names())
	flag.BoolVar(&o.quick, "quick", false, "one round on a tenth of the data: shows that it runs, not how fast")
	flag.BoolVar(&o.strict, "strict", false, "exit 1 when a figure falls short")
	flag.IntVar(&o.rounds, "rounds", 0, "how often the sides of a comparison take turns (default 3, 1 with -quick)")
	flag.StringVar(&o.out, "out", "", "where to write the figures (default "+latest+", or "+
		partial+" with -only or -quick)")
	flag.StringVar(&o.profile, "profile", "",
		"write a CPU profile of this program, and with it of the workers it runs, to this file")
	flag.IntVar(&o.bigEvents, "big-events", 4_000_000, "events of the large journal of measure big")
	flag.DurationVar(&o.bigFillFor, "big-fill-for", 0,
		"fill the large journal for at most this long, and keep it for the next run on the same server (default: fill it "+
			"at once, and drop it)")
	flag.DurationVar(&o.held, "held", time.Minute, "how long measure held_xmin holds its snapshots")
	flag.Parse()
	debug.SetGCPercent(gcPercent)
	o.databaseURL = os.Getenv("TIDEMARK_BENCH_DATABASE_URL")

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, o, os.Stdout); {
	case errors.Is(err, errFallsShort):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
}

// Command demo shows Tidemark working: three workers, live load, a worker killed halfway, and a check of every row in the end. It runs on the
// database that TIDEMARK_DATABASE_URL names or on the private one of the checkout.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/tidemark-go/tidemark/internal/demo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	os.Exit(run(ctx))
}

func run(ctx context.Context) int {
	length := 30.0
	if text, set := os.LookupEnv("DEMO_SECONDS"); set {
		var err error
		if length, err = strconv.ParseFloat(text, 64); err != nil {
			fmt.Fprintf(os.Stderr, "demo: DEMO_SECONDS is %q, it must be a number of seconds\n", text)
			return 2
		}
	}
	config := demo.Config{
		Out: os.Stdout, Terminal: term.IsTerminal(int(os.Stdout.Fd())),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	pflag.Float64Var(&length, "seconds", length, "how long to append; also DEMO_SECONDS")
	pflag.Float64Var(&config.Rate, "rate", 2000, "events a second; 0: as fast as it goes")
	pflag.IntVar(&config.Campaigns, "campaigns", 1000, "campaigns that are played at once")
	pflag.Uint64Var(&config.Seed, "seed", uint64(time.Now().UnixMilli()), "of the load; one that was played on this database appends nothing")
	pflag.IntVar(&config.Workers, "workers", 3, "worker processes; one is killed halfway")
	pflag.DurationVar(&config.LeaseTTL, "lease-ttl", 3*time.Second, "after which others take over from a killed worker")
	pflag.Parse()
	config.Length = time.Duration(length * float64(time.Second))

	result, err := demo.Run(ctx, config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	fmt.Println(result)
	if !result.Good() {
		return 1
	}
	return 0
}

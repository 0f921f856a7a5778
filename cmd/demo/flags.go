package main

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/tidemark-go/tidemark/internal/demo"
)

// parse reads the flags, and DEMO_SECONDS.
func parse(args []string) (demo.Config, error) {
	config := demo.Config{
		Out:      os.Stdout,
		Terminal: term.IsTerminal(int(os.Stdout.Fd())),
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	seconds := 30.0
	if text, set := os.LookupEnv("DEMO_SECONDS"); set {
		var err error
		if seconds, err = strconv.ParseFloat(text, 64); err != nil {
			return config, fmt.Errorf("DEMO_SECONDS is %q, it must be a number of seconds", text)
		}
	}
	flags := pflag.NewFlagSet("demo", pflag.ExitOnError)
	flags.Float64Var(&seconds, "seconds", seconds, "how long to append; also DEMO_SECONDS")
	flags.Float64Var(&config.Rate, "rate", 2000, "events a second; 0: as fast as it goes")
	flags.IntVar(&config.Campaigns, "campaigns", 1000, "campaigns that are played at once")
	flags.Uint64Var(&config.Seed, "seed", uint64(time.Now().UnixMilli()),
		"of the load; one that was played on this database appends nothing")
	flags.IntVar(&config.Workers, "workers", 3, "worker processes; one is killed halfway")
	flags.DurationVar(&config.LeaseTTL, "lease-ttl", 3*time.Second, "after which others take over from a killed worker")
	err := flags.Parse(args)
	config.Length = time.Duration(seconds * float64(time.Second))
	return config, err
}

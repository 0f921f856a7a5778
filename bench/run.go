package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/internal/devpg"
)

// errFallsShort is the error of a strict run in which a figure falls short.
var errFallsShort = errors.New("a figure falls short")

type options struct {
	only, out, profile, databaseURL string
	quick, strict                   bool
	rounds, bigEvents               int
	bigFillFor, held                time.Duration
}

const (
	latest  = "out/latest.json"
	partial = "out/partial.json" // written instead by a run that left measures out

	standardRounds = 3
	quickShrink    = 10
)

func names() string {
	var all []string
	for _, m := range Measures() {
		all = append(all, m.Name)
	}
	return strings.Join(all, ", ")
}

// chosen returns the measures that -only names, or all.
func (o options) chosen() ([]harness.Measure, error) {
	if o.only == "" {
		return Measures(), nil
	}
	wanted := strings.Split(o.only, ",")
	var chosen []harness.Measure
	for _, m := range Measures() {
		if i := slices.Index(wanted, m.Name); i >= 0 {
			chosen = append(chosen, m)
			wanted = slices.Delete(wanted, i, i+1)
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("-only names %q, which is none of %s", wanted, names())
	}
	return chosen, nil
}

func (o options) outFile() string {
	switch {
	case o.out != "":
		return o.out
	case o.quick || o.only != "":
		return partial
	}
	return latest
}

func run(ctx context.Context, o options, out io.Writer) (err error) {
	measures, err := o.chosen()
	if err != nil {
		return err
	}
	server, err := openServer(ctx, o.databaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close(context.WithoutCancel(ctx))) }()
	if err := prepare(ctx, server, out); err != nil {
		return err
	}
	bench := &harness.Bench{Server: server, Rounds: standardRounds, Shrink: 1, Progress: out,
		BigEvents: o.bigEvents, BigFillFor: o.bigFillFor, Held: o.held}
	if o.quick {
		bench.Rounds, bench.Shrink = 1, quickShrink
	}
	if o.rounds > 0 {
		bench.Rounds = o.rounds
	}
	if o.profile != "" {
		stop, err := startProfile(o.profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	figures, err := bench.Take(ctx, measures)
	if err != nil {
		return err
	}
	if err := harness.WriteTable(out, figures); err != nil {
		return err
	}
	if err := harness.WriteJSON(o.outFile(), figures); err != nil {
		return err
	}
	if o.strict && slices.ContainsFunc(figures, func(f harness.Figure) bool { return !f.Met() }) {
		return errFallsShort
	}
	return nil
}

// openServer uses the server at databaseURL, or starts a private one with its data under out/.
func openServer(ctx context.Context, databaseURL string) (*harness.Server, error) {
	if databaseURL != "" {
		return harness.NewServer(ctx, databaseURL, func() error { return nil })
	}
	private, err := devpg.Open(ctx, devpg.Config{Dir: "out/postgres"})
	if err != nil {
		return nil, err
	}
	server, err := harness.NewServer(ctx, private.URL(), private.Close)
	if err != nil {
		return nil, errors.Join(err, private.Close())
	}
	return server, nil
}

func prepare(ctx context.Context, server *harness.Server, out io.Writer) error {
	if err := server.Durable(ctx); err != nil {
		return err
	}
	if err := server.DropLeftovers(ctx); err != nil {
		return err
	}
	version, err := server.Version(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Postgres %s, %s, %d cores\n", version, runtime.Version(), runtime.NumCPU())
	return err
}

func startProfile(path string) (stop func(), err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, fmt.Errorf("start the profile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}

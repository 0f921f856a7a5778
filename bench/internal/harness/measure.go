// Package harness is the common part of all measures: the server and its databases, the workload,
// sides that take turns, and figures.
package harness

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Measure is a comparison that can run on its own.
type Measure struct {
	Name  string
	About string
	Run   func(ctx context.Context, b *Bench) ([]Figure, error)
}

// Bench is the environment of a measure.
type Bench struct {
	Server   *Server
	Rounds   int       // how often the sides of a comparison take turns
	Shrink   int       // divides the size of every data set and the length of every timed run
	Progress io.Writer // one line a step

	BigEvents  int           // events of the large journal
	BigFillFor time.Duration // fill it for at most this long and keep it; 0: fill it at once, and drop it
	Held       time.Duration // how long a foreign snapshot stays open
}

// Scaled returns n divided by Shrink, at least 1.
func (b *Bench) Scaled(n int) int { return max(1, n/b.Shrink) }

// ScaledTime returns d divided by Shrink.
func (b *Bench) ScaledTime(d time.Duration) time.Duration { return d / time.Duration(b.Shrink) }

// Logf reports progress.
func (b *Bench) Logf(format string, args ...any) { fmt.Fprintf(b.Progress, "  "+format+"\n", args...) }

// Take runs the measures one after another.
func (b *Bench) Take(ctx context.Context, measures []Measure) ([]Figure, error) {
	var figures []Figure
	for _, m := range measures {
		start := time.Now()
		fmt.Fprintf(b.Progress, "\n%s: %s\n", m.Name, m.About)
		more, err := m.Run(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", m.Name, err)
		}
		figures = append(figures, more...)
		fmt.Fprintf(b.Progress, "  took %s\n", time.Since(start).Round(100*time.Millisecond))
	}
	fmt.Fprintln(b.Progress)
	return figures, nil
}

// Side is one side of a comparison. Run runs it once on fresh data and returns its value.
type Side struct {
	Name string
	Run  func(ctx context.Context) (float64, error)
}

// Interleave lets the sides take turns, A B A B …, so that a noisy neighbour disturbs all of them
// alike. It returns the values of each side, one for each round.
func (b *Bench) Interleave(ctx context.Context, unit string, sides ...Side) ([]Samples, error) {
	samples := make([]Samples, len(sides))
	for round := range b.Rounds {
		for i, side := range sides {
			value, err := side.Run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", side.Name, round+1, err)
			}
			samples[i] = append(samples[i], value)
			b.Logf("round %d  %-34s %12.1f %s", round+1, side.Name, value, unit)
		}
	}
	return samples, nil
}

// Samples are the values of one side, by round.
type Samples []float64

// Median returns the middle value, or the mean of the two middle values.
func (s Samples) Median() float64 { return s.Quantile(0.5) }

// Quantile returns the value below which the share q of the samples lies, interpolated between
// neighbours. Without samples it returns 0.
func (s Samples) Quantile(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	place := q * float64(len(sorted)-1)
	below := int(place)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (place-float64(below))*(sorted[above]-sorted[below])
}

// Best returns the highest value of each round.
func Best(sides ...Samples) Samples {
	best := slices.Clone(sides[0])
	for _, side := range sides[1:] {
		for i := range best {
			best[i] = max(best[i], side[i])
		}
	}
	return best
}

// Over returns the median of the ratios of s to other, round by round, so disturbances of a whole
// round cancel out.
func (s Samples) Over(other Samples) float64 {
	ratios := make(Samples, len(s))
	for i := range s {
		ratios[i] = s[i] / other[i]
	}
	return ratios.Median()
}

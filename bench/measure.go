package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Measure is a comparison that can be run on its own.
type Measure struct {
	Name  string
	About string
	Run   func(ctx context.Context, b *Bench) ([]Figure, error)
}

// Measures lists all of them, in the order in which they run.
func Measures() []Measure {
	return []Measure{
		{"dense", "many events a campaign, against a bare loop without a queue", measureDense},
		{"dense_singly", "the same, with a work item for each event", measureDenseSingly},
		{"sparse", "one event a campaign, against a bare loop without a queue", measureSparse},
		{"river", "the same UPSERT, against River", measureRiver},
		{"watermill", "against watermill-sql's drain", measureWatermill},
		{"append", "tidemark.append, against a bare INSERT into the journal", measureAppend},
		{"conditions", "appends on conditions, against appends without and against SERIALIZABLE", measureConditions},
		{"conditions_unused", "appends without tags, against the same without what is done for conditions", measureUntagged},
		{"conditions_size", "a condition over many events that have tags, against one over few", measureConditionSize},
		{"claim", "claiming with a long queue, against claiming with a short one", measureClaim},
		{"status", "figures of a long queue with many deferred pairs, against a short one with few", measureStatus},
		{"gaps", "looking for gaps among many campaigns, against among few", measureGaps},
		{"pages", "each of the operators' pages with millions of deferred pairs, against with thousands", measurePages},
		{"memory", "the worker's memory with a long backlog", measureMemory},
		{"mixture", "the worker's memory while much goes on at once", measureMixture},
		{"publish", "the relay, against a bare stream of the journal", measurePublish},
		{"publish_brokers", "the relay to brokers, against their clients alone", measureBrokers},
		{"publish_forwarder", "the relay, against watermill-sql's forwarder", measureForwarder},
		{"publish_append", "appending beside a relay with many pairs, against one with a single pair", measureBeside},
		{"publish_latency", "from append to a sink, against two bare commits", measureSeen},
		{"isolation", "the healthy part while a projection fails in some campaigns, against none failing", measureIsolation},
		{
			"isolation_steady", "the healthy part while pairs that have failed are tried again and again, against none failing",
			measureSteady,
		},
		{
			"rebuild", "a rebuild of one event a campaign, against applying them live; and live work beside one, against alone",
			measureRebuild,
		},
		{"rebuild-dense", "the same with many events a campaign", measureRebuildDense},
		{
			"proof", "live work with the hash of ids, against without; and comparing the checkpoints with the journal",
			measureProof,
		},
		{"travel", "a late event of a long campaign with snapshots, against an early one", measureTravel},
		{"latency", "from append to visible, against two bare commits", measureLatency},
	}
}

// Bench is the ground a measure stands on.
type Bench struct {
	Server   *Server
	Rounds   int       // how often the sides of a comparison take turns
	Shrink   int       // divides the size of every data set and the length of every timed run
	Progress io.Writer // one line a step
}

// Scaled is n divided by Shrink, and at least 1.
func (b *Bench) Scaled(n int) int { return max(1, n/b.Shrink) }

// ScaledTime is d divided by Shrink.
func (b *Bench) ScaledTime(d time.Duration) time.Duration { return d / time.Duration(b.Shrink) }

// Logf reports progress.
func (b *Bench) Logf(format string, args ...any) { fmt.Fprintf(b.Progress, "  "+format+"\n", args...) }

// Side is one of the things compared. Run does it once, on data that is fresh, and answers its value.
type Side struct {
	Name string
	Run  func(ctx context.Context) (float64, error)
}

// Interleave lets the sides take turns, A B A B …, so that a noisy neighbour disturbs all of them alike.
// It answers the values of each side, one a round.
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

// Median is the middle value, or the mean of the two in the middle.
func (s Samples) Median() float64 { return s.Quantile(0.5) }

// Quantile is the value below which the share q of the samples lies, interpolated between
// neighbours. Of no samples it is 0.
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

// Over is the median of the ratios of s to other, round by round: what disturbs a whole round cancels out.
func (s Samples) Over(other Samples) float64 {
	ratios := make(Samples, len(s))
	for i := range s {
		ratios[i] = s[i] / other[i]
	}
	return ratios.Median()
}

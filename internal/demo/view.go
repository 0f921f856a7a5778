package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/examples/tabletop"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

// sample is one reading of the progress. Counts start with the load.
type sample struct {
	at       time.Time
	appended int64
	applied  int64
	lag      int64         // events
	age      time.Duration // of the oldest event that is not applied yet
}

// look takes a sample and prints it. It fails if a worker has ended by itself.
func (d *demo) look(ctx context.Context) (now sample, err error) {
	if err := d.fleet.check(); err != nil {
		return sample{}, err
	}
	// In this order, an event that has left the lag is counted as applied, and an applied event as
	// appended.
	if now.lag, now.age, err = d.lag(ctx); err != nil {
		return sample{}, err
	}
	if now.applied, err = lease.Applied(ctx, d.pool, group); err != nil {
		return sample{}, err
	}
	reports, err := d.reports(ctx)
	if err != nil {
		return sample{}, err
	}
	now.applied -= d.before
	now.appended, now.at = d.load.Appended(), time.Now()

	var each strings.Builder
	for _, w := range d.fleet.workers {
		r := reports[w.process.Pid]
		fmt.Fprintf(&each, " | worker %d: %s, holds %d campaigns, applied %d", w.number, w.state, r.CampaignsHeld,
			r.EventsApplied)
	}
	seconds := now.at.Sub(d.previous.at).Seconds()
	d.say("%3.0f s  appended %d (%.0f/s)  applied %d (%.0f/s)  lag %d events, %d ms%s", now.at.Sub(d.begun).Seconds(),
		now.appended, float64(now.appended-d.previous.appended)/seconds, now.applied,
		float64(now.applied-d.previous.applied)/seconds, now.lag, now.age.Milliseconds(), &each)
	d.previous = now
	return now, nil
}

func (d *demo) lag(ctx context.Context) (events int64, age time.Duration, err error) {
	projections, err := tabletop.Projections()
	if err != nil {
		return 0, 0, err
	}
	ours := []string{""}
	for _, p := range projections {
		ours = append(ours, p.Spec().Name)
	}
	lags, err := outbox.Lag(ctx, d.pool)
	for _, behind := range lags {
		if behind.Group == group && slices.Contains(ours, behind.Projection) {
			events, age = max(events, behind.Events), max(age, behind.Age)
		}
	}
	return events, age, err
}

// reports returns the demo's workers as they report themselves, by process ID. Of reports with the
// same ID the last one counts.
func (d *demo) reports(ctx context.Context) (map[int]lease.Worker, error) {
	all, err := lease.Workers(ctx, d.pool)
	reports := map[int]lease.Worker{}
	for _, r := range all {
		ours := func(w *worker) bool { return w.process.Pid == r.PID }
		if r.ConsumerGroup == group && slices.ContainsFunc(d.fleet.workers, ours) {
			reports[r.PID] = r
		}
	}
	return reports, err
}

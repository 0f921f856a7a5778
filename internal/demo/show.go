package demo

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-go/tidemark/examples/tabletop"
)

// interval is how often the view is brought up to date. Workers report about once a second.
const interval = time.Second

// show runs the load and the live view, and kills a worker halfway.
func (d *demo) show(ctx context.Context) error {
	load, err := tabletop.NewLoad(tabletop.LoadConfig{
		Pool: d.pool, Rate: d.Rate, Lanes: lanes,
		Generator: tabletop.NewGenerator(tabletop.GeneratorConfig{Seed: d.Seed, Campaigns: d.Campaigns}),
	})
	if err != nil {
		return err
	}
	d.load = load
	d.meter.appended = load.Appended

	loading, end := context.WithTimeout(ctx, d.Length)
	defer end()
	loaded := make(chan error, 1)
	go func() { loaded <- load.Run(loading) }()

	watchErr := d.watch(loading)
	end()
	return errors.Join(watchErr, <-loaded, ctx.Err())
}

// watch keeps the view up to date until loading is over or failed.
func (d *demo) watch(loading context.Context) error {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	halfway := time.NewTimer(d.Length / 2)
	defer halfway.Stop()
	for {
		var err error
		select {
		case <-loading.Done():
			return nil
		case <-halfway.C:
			err = d.strike(loading)
		case <-ticks.C:
			var now sample
			if now, err = d.sample(loading); err == nil {
				d.screen.show(now)
			}
		}
		if err != nil && loading.Err() == nil {
			return err
		}
	}
}

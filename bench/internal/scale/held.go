package scale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

const (
	heldCampaigns = 10_000
	heldRate      = 1000 // appends a second
	heldClients   = 4
	heldWindow    = 10 * time.Second
	heldBefore    = 6 // windows, after one to warm up
	heldAfter     = 6

	// With an xid the transaction holds back the snapshots of all databases.
	holdSnapshot = `SELECT pg_current_xact_id()`
)

// heldLoad appends at a steady rate while a worker applies, and counts both by window.
type heldLoad struct {
	b       *harness.Bench
	pool    *pgxpool.Pool
	applied atomic.Int64
	mu      sync.Mutex
	times   harness.Samples // of the appends of the current window
	delays  harness.Samples // from the append to the handler
}

type heldFigures struct{ appends, p50, applied, delay float64 }

// projection is [harness.GoHandler] that counts.
func (l *heldLoad) projection() projection.Projection {
	return projection.Handlers{
		Name: "characters", Version: 1, Tables: harness.CreateCharacters,
		On: []projection.Handler{
			projection.Handle(harness.EventType,
				func(_ context.Context, g *projection.Group, e event.Event, d harness.DamageTaken) error {
					g.Queue(harness.UpsertCharacter, e.CampaignID, d.CharacterID, d.Damage)
					l.applied.Add(1)
					l.mu.Lock()
					l.delays = append(l.delays, float64(time.Since(e.RecordedAt).Nanoseconds())/1e6)
					l.mu.Unlock()
					return nil
				}),
		},
	}
}

// client appends at its share of the rate. It makes up for appends that were late.
func (l *heldLoad) client(ctx context.Context) error {
	next := time.Now()
	for n := 1; ; n++ {
		next = next.Add(time.Second * heldClients / heldRate)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(next)):
		}
		payload, err := harness.DamagePayload(n)
		if err != nil {
			return err
		}
		start := time.Now()
		err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(ctx, tx, harness.CampaignID(rand.IntN(heldCampaigns)), journal.Any,
				event.Event{Type: harness.EventType, Payload: payload})
			return err
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		took := float64(time.Since(start).Nanoseconds()) / 1e6
		l.mu.Lock()
		l.times = append(l.times, took)
		l.mu.Unlock()
	}
}

// windows waits for windows of the load and returns their figures.
func (l *heldLoad) windows(ctx context.Context, phase string, n int) (all []heldFigures, err error) {
	length := l.b.ScaledTime(heldWindow)
	for range n {
		l.mu.Lock()
		l.times, l.delays = nil, nil
		l.mu.Unlock()
		before, start := l.applied.Load(), time.Now()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(length):
		}
		took := time.Since(start).Seconds()
		l.mu.Lock()
		f := heldFigures{
			appends: float64(len(l.times)) / took, p50: l.times.Median(),
			applied: float64(l.applied.Load()-before) / took, delay: l.delays.Median(),
		}
		l.mu.Unlock()
		l.b.Logf("%-7s %6.0f appends/s, p50 %6.3f ms; %6.0f events/s applied, p50 %6.3f ms after the append", phase,
			f.appends, f.p50, f.applied, f.delay)
		all = append(all, f)
	}
	return all, nil
}

// hold opens snapshots that stay until release is called: one in db, one in another database.
func hold(ctx context.Context, databases ...*harness.Database) (release func(), err error) {
	var held []*pgx.Conn
	release = func() {
		for _, conn := range held {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
	}
	for _, db := range databases {
		conn, err := db.Connect(ctx)
		if err != nil {
			return release, fmt.Errorf("hold a snapshot: %w", err)
		}
		held = append(held, conn)
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err == nil {
			_, err = tx.Exec(ctx, holdSnapshot)
		}
		if err != nil {
			return release, fmt.Errorf("hold a snapshot: %w", err)
		}
	}
	return release, nil
}

// MeasureHeld compares appends and their application while foreign snapshots keep vacuum from all
// that has been deleted since, with before.
func MeasureHeld(ctx context.Context, b *harness.Bench) (_ []harness.Figure, err error) {
	db, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Drop(context.WithoutCancel(ctx))
	other, err := b.Server.Create(ctx)
	if err != nil {
		return nil, err
	}
	defer other.Drop(context.WithoutCancel(ctx))
	l := &heldLoad{b: b}
	if l.pool, err = db.Pool(ctx, 2*heldClients); err != nil {
		return nil, err
	}
	defer l.pool.Close()
	workers, err := db.Pool(ctx, 6)
	if err != nil {
		return nil, err
	}
	defer workers.Close()
	worker, err := projector.New(projector.Config{
		Pool: workers, ConsumerGroup: harness.ConsumerGroup, Projections: []projection.Projection{l.projection()},
	})
	if err != nil {
		return nil, err
	}
	if err := worker.Register(ctx); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	load, loaded := errgroup.WithContext(running)
	load.Go(func() error { return worker.Run(loaded) })
	for range heldClients {
		load.Go(func() error { return l.client(loaded) })
	}
	defer func() {
		stop()
		err = errors.Join(err, load.Wait())
	}()

	if _, err := l.windows(loaded, "warm-up", 1); err != nil {
		return nil, err
	}
	before, err := l.windows(loaded, "before", heldBefore)
	if err != nil {
		return nil, err
	}
	release, err := hold(loaded, db, other)
	defer release()
	if err != nil {
		return nil, err
	}
	during, err := l.windows(loaded, "held", max(1, int(b.Held/heldWindow)))
	if err != nil {
		return nil, err
	}
	release()
	after, err := l.windows(loaded, "after", heldAfter)
	if err != nil {
		return nil, err
	}
	return heldRatios(before, during, after), nil
}

// heldRatios takes the worst minute of those held for what is done a second, the median of the windows for
// what an append takes, and the last window after.
func heldRatios(before, during, after []heldFigures) []harness.Figure {
	appends := func(f heldFigures) float64 { return f.appends }
	applied := func(f heldFigures) float64 { return f.applied }
	p50 := func(f heldFigures) float64 { return f.p50 }
	column := func(of []heldFigures, value func(heldFigures) float64) (s harness.Samples) {
		for _, f := range of {
			s = append(s, value(f))
		}
		return s
	}
	usual := func(value func(heldFigures) float64) float64 { return column(before, value).Median() }
	worst := func(value func(heldFigures) float64) float64 {
		var minutes harness.Samples
		for minute := range slices.Chunk(during, int(time.Minute/heldWindow)) {
			sum := 0.0
			for _, f := range minute {
				sum += value(f)
			}
			minutes = append(minutes, sum/float64(len(minute)))
		}
		return minutes.Quantile(0)
	}
	const to = "the same before the snapshot"
	rate := func(name string, limit, got float64, value func(heldFigures) float64) harness.Figure {
		return harness.AtLeast(limit, harness.Figure{
			Name: name, Value: got, Unit: "events/s", Ratio: got / usual(value), To: to,
		})
	}
	speed := func(name string, got float64) harness.Figure {
		return harness.AtLeast(0.95, harness.Figure{
			Name: name, Value: got, Unit: "ms", Ratio: usual(p50) / got, To: to + ", as speed",
		})
	}
	last := after[len(after)-1:]
	return []harness.Figure{
		rate("held_append", 0.95, worst(appends), appends),
		rate("held_apply", 0.95, worst(applied), applied),
		speed("held_append_p50", column(during, p50).Median()),
		rate("held_append_after", 0.98, column(last, appends).Median(), appends),
		rate("held_apply_after", 0.98, column(last, applied).Median(), applied),
		speed("held_append_p50_after", column(last, p50).Median()),
	}
}
